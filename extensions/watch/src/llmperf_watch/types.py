"""The document of a watched program: what its output says, by whose clock, and the figures that follow."""

from __future__ import annotations

from typing import Literal

from llmperf.types.flop_counts import Mfu
from llmperf.types.frozen import dataclass

SCHEMA = "llmperf/watched/1"
Clock = Literal["llmperf", "program"]
"""`llmperf`: lines were stamped as they arrived. `program`: times that the program printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """One fact about the run, and who says so."""

    value: str | float
    """A name, or a number in base units."""
    source: str
    """`--OPTION`, `printed by the program`, `seen on this machine`, or a formula over other facts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Columns of the reported steps, in the order of the output; null where the program said nothing."""

    step: tuple[float | None, ...] = ()
    """Number of the optimiser step."""
    at: tuple[float | None, ...] = ()
    """Seconds on our clock from the start of the program to the line; null in a log that was read later."""
    loss: tuple[float | None, ...] = ()
    """As printed."""
    step_seconds: tuple[float | None, ...] = ()
    """As printed."""
    tokens: tuple[float | None, ...] = ()
    """Tokens of one step, as printed."""
    tokens_per_second: tuple[float | None, ...] = ()
    """Of all devices, as printed."""
    tokens_per_second_per_device: tuple[float | None, ...] = ()
    """As printed."""
    samples_per_second: tuple[float | None, ...] = ()
    """Sequences per second of all devices, as printed."""
    flops_per_second_per_device: tuple[float | None, ...] = ()
    """As printed."""
    mfu: tuple[float | None, ...] = ()
    """As printed, as a share of 1."""
    memory_bytes: tuple[float | None, ...] = ()
    """Memory of a device, as printed."""
    time: tuple[float | None, ...] = ()
    """Seconds on the program's own clock, from any moment on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A figure over the steps after warm-up."""

    median: float
    """Median."""
    p5: float
    """5th percentile; of one value of coarse times, the least that it may be."""
    p95: float
    """95th percentile; of one value of coarse times, the most that it may be."""
    mean: float
    """Work of the whole window after warm-up, pauses included / its time; the arithmetic mean of printed figures."""
    count: int
    """Values."""
    source: str
    """How it was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """A pause between two reported steps, such as an evaluation, a checkpoint, or a fault."""

    step: float | None
    """The step reported after it."""
    seconds: float
    """From the line before to this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Everything that follows from facts and steps; `llmperf validate` computes it again."""

    reported: int
    """Lines with a step."""
    attempts: int
    """1, and 1 more for each time that the step number went back."""
    left_out: int
    """Reported steps that count as warm-up."""
    step_seconds: Spread | None
    """Time of one optimiser step."""
    tokens_per_second: Spread | None
    """Of all devices."""
    tokens_per_second_per_device: Spread | None
    """The same per device."""
    printed: dict[str, Spread]
    """Figures that the program printed, by the names of `steps`."""
    mfu: tuple[Mfu, ...]
    """By our own FLOP counts, in every convention; empty where something is not stated."""
    no_mfu: str | None
    """What is not stated, where there is no MFU."""
    first_loss: float | None
    """Of the first step with a loss."""
    last_loss: float | None
    """Of the last step with a loss."""
    restarts: tuple[float, ...]
    """Step numbers at which the program began again."""
    stalls: tuple[Stall, ...]
    """Pauses of more than five median steps; the longest first, at most 20."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """Readings of the devices of this machine while the program ran, whatever used them."""

    readings: int
    """Number of readings."""
    memory_peak_bytes: int | None
    """Largest memory in use on one device."""
    power_watts: float | None
    """Mean power of all devices together."""
    utilisation_percent: float | None
    """Mean over devices and readings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """One training program, by its own output."""

    schema: Literal["llmperf/watched/1"] = "llmperf/watched/1"
    """Name and version of this document's schema."""
    created: str
    """UTC, ISO 8601."""
    llmperf_version: str
    """That read the output."""
    evidence: Literal["watched", "log", "metered"]
    """`watched`: llmperf ran the program. `log`: a file was read. `metered`: the program called `meter`."""
    clock: Clock
    """Whose times the figures rest on."""
    profile: str | None
    """The log profile that fits; null where none does."""
    profile_source: str | None
    """Where the profile's format is from."""
    command: tuple[str, ...] = ()
    """The program; values that look like secrets are withheld."""
    exit_status: int | None = None
    """Of the program; null for a log."""
    log: str | None = None
    """File name of the output."""
    log_sha256: str | None = None
    """Digest of that file."""
    lines: int
    """Lines of output."""
    facts: dict[str, Stated]
    """`model`, `precision`, `vendor`, `device_model`, `devices`, `seq_len`, `global_batch`: those that are stated.

    Beside them what the program printed of the whole run (`run_seconds`, ...), and `time_resolution` of coarse times.
    """
    steps: Steps
    """The reported steps."""
    figures: Figures
    """What follows from them."""
    sampled: Sampled | None = None
    """The devices; null where no vendor's tool reads them."""
    notes: tuple[str, ...] = ()
    """What a reader should know."""
