"""What a worker leaves behind as it goes: one JSON line each, in `records/rank-NNNNN.jsonl` and `memory.jsonl`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Protocol, runtime_checkable

from llmperf.types.devices import DeviceSample
from llmperf.types.units import Count, NonNegative, Positive


@runtime_checkable
class DeferredScalar(Protocol):
    """A number still on its way from the device."""

    def ready(self) -> bool:
        """Whether `float()` would not block."""
        ...

    def __float__(self) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutput:
    """What one optimiser step gives back."""

    loss: float | DeferredScalar | None
    """Mean cross entropy per token of this rank's part, in nats; None on ranks that do not compute it."""
    tokens: Count
    """Tokens this rank trained on. Ranks that share their data (tensor, pipeline parallel) report them once: the sum
    over ranks is the step's tokens."""
    grad_norm: float | DeferredScalar | None = None
    """Norm of the whole gradient before clipping, where the framework computes it."""
    skipped: bool | DeferredScalar | None = None
    """Whether the update was left out because gradients were not finite, as a loss scaler does in fp16; a deferred
    number other than 0 is true. None where the framework does not know."""


class Trainer(Protocol):
    """A model, its data and its optimiser, ready to step; a context manager."""

    @property
    def parameter_count(self) -> int:
        """Parameters of the whole model that was built, on every rank the same: the core compares it with the plan's.

        Sharded parameters count with their whole size, tied ones once, adapters not at all. Ranks that hold only a
        stage of a pipeline add up the stages' counts.
        """
        ...

    def train_step(self) -> StepOutput:
        """One optimiser step: all its micro batches, the update, no waiting for the device that is not needed."""
        ...

    def evaluate(self) -> Mapping[str, float] | Iterator[Mapping[str, float]]:
        """Figures other than the training loss, after the run; empty where there are none.

        `whole/part` is the name of a part of the figure `whole`. Where it takes long: an iterator of parts, each of
        which, also an empty one, shows that the rank has not hung.
        """
        ...

    def close(self) -> None:
        """Give back what it holds, process groups included."""
        ...

    def __enter__(self) -> Trainer: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


Phase = Literal["starting", "loading", "building", "warming up", "measuring", "evaluating", "done"]
"""What a rank is at, in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRecord:
    """A rank enters a phase."""

    kind: Literal["phase"] = "phase"
    """Which record this is."""
    rank: Count
    """Who enters."""
    phase: Phase
    """What it begins."""
    at: NonNegative
    """Seconds since the epoch, host clock."""
    monotonic: NonNegative
    """The same moment in seconds of the host's CLOCK_MONOTONIC, which cannot be set. Intervals are computed from it;
    only processes of one host share it. `measuring` and `evaluating` are the edges of the measured window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One optimiser step on one rank."""

    kind: Literal["step"] = "step"
    """Which record this is."""
    rank: Count
    """Who did the step."""
    step: Positive
    """From 1, warm-up included."""
    measured: bool
    """False for a warm-up step."""
    at: NonNegative
    """Seconds since the epoch when the step was handed over, host clock."""
    monotonic: NonNegative
    """The same moment in seconds of the host's CLOCK_MONOTONIC."""
    step_seconds: NonNegative
    """From device events."""
    tokens: Count
    """Tokens this rank trained on."""
    loss: float | None
    """Mean cross entropy per token of this rank's part, in nats; None where this rank does not compute it."""
    nonfinite: Literal["nan", "inf", "-inf"] | None = None
    """What the loss was when it was no number; `loss` is then None."""
    grad_norm: float | None = None
    """Norm of the whole gradient before clipping; None where the framework does not compute it."""
    skipped: bool | None = None
    """Whether the update was left out because gradients were not finite; None where the framework does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedStep:
    """A step as an external script prints it. The core adds the rank, the moment and whether the step is measured."""

    step: Positive
    """From 1."""
    loss: float | None
    """Mean cross entropy per token of the whole step, in nats; NaN or infinite where the script prints that; None where
    it prints none."""
    seconds: NonNegative | None = None
    """By the script's own clock; None where it prints no time: the core then uses the time since the line before."""
    tokens: Count | None = None
    """Tokens of the whole step, over all ranks, held against the plan; None where the script does not print them."""
    grad_norm: float | None = None
    """Norm of the whole gradient before clipping; None where the script does not print it."""
    skipped: bool | None = None
    """Whether the script skipped the update because gradients were not finite; None where it does not print it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedFacts:
    """Other facts in a rank's output, about that rank."""

    peak_memory_bytes: Count | None = None
    """Highest memory use of the rank so far."""
    parameters: Positive | None = None
    """Parameters of the whole model, held against the plan; tied ones count once, adapters do not count."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Versions of packages, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedFailure:
    """The exception that ends a rank's script, printed before the script ends."""

    exception: str
    """Name of its type."""
    message: str
    """Its message."""
    traceback: str = ""
    """As Python prints it."""


StepClock = Literal["device events", "script", "line arrivals"]
"""Where step times come from: the device's events, what an external script prints, or when its lines arrive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRecord:
    """What a rank says at its end of the measured window as a whole."""

    kind: Literal["rank"] = "rank"
    """Which record this is."""
    rank: Count
    """Who says it."""
    measured_steps: Count
    """Steps in the window."""
    measured_tokens: Count
    """Tokens this rank trained on in the window, those of skipped steps not counted."""
    window_seconds: NonNegative
    """Wall time of the measured steps between two synchronised edges."""
    step_clock: StepClock = "device events"
    """Where the times of the measured steps come from."""
    peak_memory_bytes: Count | None
    """Most this rank held in the window; None where it cannot be known."""
    peak_reserved_bytes: Count | None = None
    """Most that its allocator had taken from the device, used or not; None where it cannot be known."""
    evaluation: Mapping[str, float | None]
    """Figures other than the training loss; `whole/part` is a part of `whole`. None where one was no number."""
    packages: Mapping[str, str]
    """Versions this rank ran with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRecord:
    """An exception that ended a rank."""

    kind: Literal["failure"] = "failure"
    """Which record this is."""
    rank: Count
    """The rank that ended."""
    at: NonNegative
    """Seconds since the epoch, host clock."""
    exception: str
    """Name of its type."""
    message: str
    """What it says."""
    traceback: str
    """As Python prints it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSample:
    """One reading of the controller's host; counters, of which only differences count."""

    cores: Positive
    """Those that the run may use."""
    busy_seconds: NonNegative
    """CPU time of those cores for all processes, summed over the cores."""
    own_seconds: NonNegative
    """CPU time of the controller and of every process it has started, directly or not."""
    other_processes: Count | None = None
    """Processes on the node's devices that are not of this run; None where unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySample:
    """One reading of a node's devices by the controller's sampler."""

    kind: Literal["memory"] = "memory"
    """Which record this is."""
    at: NonNegative
    """Seconds since the epoch, host clock."""
    monotonic: NonNegative
    """The same moment in seconds of the host's CLOCK_MONOTONIC."""
    query_seconds: NonNegative
    """What the reading itself cost."""
    devices: tuple[DeviceSample, ...]
    """One reading for each device of the node."""
    host: HostSample | None = None
    """Of the host at the same moment; None where the system does not show it."""


Record = PhaseRecord | StepRecord | RankRecord | FailureRecord | MemorySample
