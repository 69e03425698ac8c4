"""Observations of a plugin by the kit's processes: JSON documents that the checks evaluate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    """What a fresh interpreter sees when it finds, imports and first asks a plugin, with no command on its PATH."""

    imported_by_discovery: bool
    """Whether looking for plugins imported this one."""
    bare_cpu_seconds: float
    """CPU time of an interpreter that does nothing."""
    import_cpu_seconds: float | None = None
    """CPU time of importing the plugin's module, what llmperf itself imports left out; None if it failed."""
    heavy_imports: tuple[str, ...] = ()
    """Heavy packages that the import brought in."""
    hook_error: str | None = None
    """What the vendor's probe or the framework's planning raised."""
    heavy_after_hook: tuple[str, ...] = ()
    """Heavy packages that are loaded after it."""
    reasons: tuple[str, ...] | None = None
    """`Probe.problems` of a probe that shows no device; None where it shows some, or for a framework."""
    reading_errors: tuple[str, ...] = ()
    """What `llmperf_query_memory` raised for these devices, for a missing device and for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Some work that was given to a device between two events, and the wait for it."""

    wall_seconds: float
    """Host time from before the work to after `synchronize()`."""
    event_seconds: float
    """What the second event tells since the first."""
    first_ready_seconds: float
    """How long `ready()` took, asked when the work had just been handed over."""
    reached: bool
    """Whether the second event was ready at once after `synchronize()`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What a process sees that binds a device as a rank does."""

    error: str | None = None
    """What binding it raised; nothing else is known then."""
    places: Mapping[str, str] = field(default_factory=dict)
    """As the device gives them, by runtime."""
    collective_backend: str = ""
    """As the device gives it."""
    backends: tuple[str, ...] = ()
    """Collectives that torch knows then; none where torch is not loaded."""
    work: str | None = None
    """Why no work could be given to it; None when it could."""
    event_error: str | None = None
    """What its events or `synchronize()` raised."""
    stretches: tuple[Stretch, ...] = ()
    """Tries, one after another."""
    memory_error: str | None = None
    """What its memory figures raised."""
    taken_bytes: int = 0
    """What was taken between the first peak and the second."""
    peaks: tuple[int | None, ...] = ()
    """Peak after a reset, with the block, after the block was given back, after another reset."""
    hides_errors: bool = False
    """Whether leaving it as a context manager with an error would hide the error."""
    close_error: str | None = None
    """What closing it, or closing it again, raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankEnd:
    """Observations of one rank that builds a trainer, takes some steps and leaves with an error."""

    rank: int
    """Which."""
    error: str | None = None
    """What building or stepping raised; nothing else is known then."""
    losses: tuple[float | None, ...] = ()
    """Of its steps; None where this rank does not compute it."""
    hides_errors: bool = False
    """Whether leaving the trainer as a context manager with an error would hide the error."""
    leaving_error: str | None = None
    """What leaving it with an error raised."""
    leaving_seconds: float = 0.0
    """How long that took, while the other ranks did nothing."""
    close_error: str | None = None
    """What closing it, or closing it again, raised."""
    evaluation: dict[str, float] = field(default_factory=dict)
    """What `evaluate()` gave."""
    evaluation_error: str | None = None
    """What it raised, or why that is not what it should give."""
