"""Observations of a plugin by the kit's processes: JSON documents that the checks evaluate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    """Observations of a fresh interpreter that finds, imports and first asks a plugin, with an empty PATH."""

    imported_by_discovery: bool
    """Looking for plugins imported this one."""
    bare_cpu_seconds: float
    """CPU time of an interpreter that does nothing."""
    import_cpu_seconds: float | None = None
    """CPU time of importing the plugin's module, what llmperf itself imports left out; None if it failed."""
    heavy_imports: tuple[str, ...] = ()
    """Heavy packages that the import brought in."""
    hook_error: str | None = None
    """Error raised by the vendor's probe or the framework's planning."""
    heavy_after_hook: tuple[str, ...] = ()
    """Heavy packages that are loaded after it."""
    reasons: tuple[str, ...] | None = None
    """`Probe.problems` of a probe that shows no device; None where it shows some, or for a framework."""
    reading_errors: tuple[str, ...] = ()
    """Errors of `llmperf_query_memory` for these devices, for a missing device and for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Some work that was given to a device between two events, and the wait for it."""

    wall_seconds: float
    """Host time from before the work to after `synchronize()`."""
    least_seconds: float
    """Host time from after the first event was set to before the last."""
    event_seconds: float
    """Time between the first and the last event."""
    first_ready_seconds: float
    """How long `ready()` took, asked when the work had just been handed over."""
    reached: bool
    """The second event was ready at once after `synchronize()`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Observations of a process that binds a device as a rank does."""

    error: str | None = None
    """Error of binding; nothing else is known then."""
    places: Mapping[str, str] = field(default_factory=dict)
    """As the device gives them, by runtime."""
    collective_backend: str = ""
    """As the device gives it."""
    backends: tuple[str, ...] = ()
    """Collectives that torch knows then; none where torch is not loaded."""
    work: str | None = None
    """Reason why no work could be given to it; None when it could."""
    event_error: str | None = None
    """Error of its events or `synchronize()`."""
    stretches: tuple[Stretch, ...] = ()
    """Tries, one after another."""
    products: Mapping[str, float] = field(default_factory=dict)
    """FLOP/s of the fastest matrix product that the kit timed, by dtype."""
    product_error: str | None = None
    """Error of timing products."""
    runtime_name: str | None = None
    """The device's name as torch, or the host's kernel, has it; None if unknown."""
    runtime_memory_bytes: int | None = None
    """The device's memory by the same source; None if unknown."""
    memory_error: str | None = None
    """Error of its memory figures."""
    taken_bytes: int = 0
    """Bytes allocated between the first peak and the second."""
    peaks: tuple[int | None, ...] = ()
    """Peak after a reset, with the block, after the block was given back, after another reset."""
    hides_errors: bool = False
    """Leaving it as a context manager with an error would hide the error."""
    close_error: str | None = None
    """Error of closing it, or of closing it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """The first steps of a plan as a reference computes them."""

    losses: tuple[float, ...] = ()
    """Mean cross entropy per token over all ranks, in nats, by step."""
    grad_norms: tuple[float, ...] = ()
    """Norm of the whole gradient before clipping, by step."""
    sequences: tuple[tuple[float, ...], ...] = ()
    """Mean cross entropy per token of each sequence of step 1, by data-parallel rank; empty if unknown."""
    unknown: str | None = None
    """Reason why no reference covers them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """A micro batch that a rank drew."""

    index: int
    """Index of the rank's micro batch, from 0."""
    step: int
    """The step in which it was drawn, from 1; 0 while the trainer was built."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One stretch of time by two clocks."""

    name: str
    """The clock that is checked."""
    seconds: float
    """By that clock."""
    least_seconds: float
    """By the other clock, at least: two clocks are never read at the same moment."""
    most_seconds: float
    """By the other clock, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankEnd:
    """Observations of one rank that builds a trainer, takes some steps and leaves with an error."""

    rank: int
    error: str | None = None
    """Error of building or stepping; nothing else is known then."""
    losses: tuple[float | None, ...] = ()
    """Losses by step; None where this rank does not compute them."""
    grad_norms: tuple[float | None, ...] = ()
    """Gradient norms by step; None where the framework does not compute them."""
    sequences: tuple[float, ...] | None = None
    """Losses of the sequences of step 1, as `first_losses()` gives them; None without."""
    draws: tuple[Draw, ...] = ()
    """The micro batches that it drew until its last step."""
    clocks: tuple[Timed, ...] = ()
    """The process's clocks over the steps, compared with the times that the kernel gives files; and the device's
    events, compared with the host's clock."""
    replaced: tuple[str, ...] = ()
    """Functions of llmperf, and clocks, that were replaced since the rank began."""
    kernels: Mapping[str, str] = field(default_factory=dict)
    """As the trainer names them; empty without."""
    operations: tuple[str, ...] = ()
    """Names of the operations of its last step, by torch's profiler; empty where torch is not loaded."""
    hides_errors: bool = False
    """Leaving the trainer as a context manager with an error would hide the error."""
    leaving_error: str | None = None
    """Error of leaving it with an error."""
    leaving_seconds: float = 0.0
    """How long that took, while the other ranks did nothing."""
    close_error: str | None = None
    """Error of closing it, or of closing it again."""
    evaluation_error: str | None = None
    """Error of `evaluate()`, or the fault of its answer."""
