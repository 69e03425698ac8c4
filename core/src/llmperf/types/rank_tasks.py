"""Tasks that extensions give to the ranks of a run, in place of training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from llmperf.types.devices import Device
    from llmperf.types.plan import Plan
    from llmperf.types.records import Phase

T = TypeVar("T")


class RankAtTask(Protocol):
    """One rank that does a task, in a process of its own and bound to its device."""

    rank: int
    """Number of the rank."""
    plan: Plan
    """Plan of the run."""
    device: Device
    """Device of the rank."""

    def task(self, kind: type[T]) -> T:
        """The dataclass that `PlannedTask.run` was given."""
        ...

    def ask(self, hook: str, **arguments: Any) -> Any:
        """The answer of the run's vendor or framework to a hook that it owns; PluginError if neither answers."""
        ...

    def enter(self, phase: Phase) -> None:
        """Record that a phase begins. Devices and host are read for the whole run, and judged for `measuring`."""
        ...

    def record(self, record: object) -> None:
        """Write a record at once: a dataclass whose `kind` is the task's name, with the `rank`; see `FurtherRecord`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTask:
    """A task that ranks can do."""

    name: str
    """Name for `PlannedTask.run`, and for `Plan.purpose`."""
    run: Callable[[RankAtTask], None]
    """Called in each rank, at the same time. An exception ends the run, with its message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedTask:
    """A run whose ranks have done a task."""

    folder: Path
    """The run folder."""
    packages: Mapping[str, str]
    """Versions here of the packages that affect its speed, as `Facts.packages` of the plugins name them."""
    other_cpu_share: float | None
    """Share of the first node's cores that other processes used while ranks were measuring; None if unknown."""
    other_processes: int | None
    """Processes on its devices that were not of this run; None if unknown."""
    throttled: tuple[str, ...] | None
    """Reasons why its devices were slowed, in alphabetical order; None if unknown."""
    celsius: tuple[float, float] | None
    """Lowest and highest temperature of all devices; None if unknown."""
