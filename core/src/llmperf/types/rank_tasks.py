"""Tasks of the ranks of a run in place of training, and the operations that one of them times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from llmperf.types.frozen import dataclass
from llmperf.types.units import Positive

if TYPE_CHECKING:
    from llmperf.types.devices import Device
    from llmperf.types.plan import Plan
    from llmperf.types.records import Phase, Record, Trainer

T = TypeVar("T")


class RankAtTask(Protocol):
    """One rank that does a task, in a process of its own."""

    rank: int
    """Number of the rank."""
    plan: Plan
    """Plan of the run."""
    device: Device
    """Device of the rank; None if the task binds none."""
    trainer: Trainer | None
    """Trainer after all steps of a run, in the task `trace`; None in others."""
    run: Path
    """Run folder."""

    def task(self, kind: type[T]) -> T:
        """The dataclass that `PlannedTask.run` was given."""

    def ask(self, hook: str, **arguments: Any) -> Any:
        """The answer of the run's vendor or framework to a hook that it owns; PluginError if neither answers."""

    def answers(self, hook: str, kinds: tuple[type[T], ...], **arguments: Any) -> tuple[T, ...]:
        """The answers of the hook's owner, which may give one, several or None; PluginError for any of other kinds."""

    def who(self, hook: str) -> str:
        """The owner of a hook as messages name it: `framework 'acme' (llmperf-acme)`."""

    def enter(self, phase: Phase, moment: tuple[float, float] | None = None) -> None:
        """Record that a phase begins. Devices and host are read for the whole run, and judged for `measuring`.

        `moment` is a `llmperf.launching.Moment`, by default now.
        """

    def record(self, record: object) -> None:
        """Write a record at once: one of the core's, or a dataclass whose `kind` is the task's name, with the `rank`;
        see `FurtherRecord`."""

    def follow(self, rank: int) -> Callable[[], Sequence[Record]]:
        """A function that returns the records which another rank has written since the last call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTask:
    """A task that ranks can do."""

    name: str
    """Name for `PlannedTask.run`, and for `Plan.purpose`."""
    run: Callable[[RankAtTask], int | None]
    """Called in each rank, at the same time. An exception ends the run, with its message. A status other than 0 and
    None ends the rank with it, and so the run."""
    binds_device: bool = True
    """The rank's device is bound before. False for tasks that leave devices to programs that they start."""


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


TimedKind = Literal["matmul", "attention", "copy", "read", "launch", "all_reduce", "all_gather"]
"""Kinds of timed operation. `attention`: causal, forward and backward; `launch`: kernels that compute nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationToTime:
    """One operation of known size."""

    kind: TimedKind
    """Kind of the operation."""
    dtype: str
    """Dtype as in `PeakFlops.dtype`; `tf32` is float32 data whose products may be computed in it."""
    shape: tuple[Positive, ...]
    """`matmul`: batch, rows, columns, inner size. `attention`: batch, heads, tokens, head size. `launch`: kernels.
    `copy` and `read`: bytes of the source. Collectives: bytes of the summed or the gathered tensor on one rank."""


class PreparedOperation(Protocol):
    """An operation with its tensors, ready to run any number of times."""

    def run(self) -> None:
        """Hand it to the device once, without waiting for the device."""

    def check(self) -> str | None:
        """Compare the output with a reference that is computed in another way; one line that says what is wrong."""


class TimedOperations(Protocol):
    """Operations of one rank's device; a context manager. The caller runs them, times them and checks their outputs."""

    conditions: Mapping[str, str]
    """Conditions of the figures, by name: version of the tensor library, threads."""

    def prepare(self, operation: OperationToTime) -> PreparedOperation | None:
        """The operation with its tensors allocated and filled; None if the device or the library does not have it.

        The tensors of the previous operation may be freed.
        """

    def agree(self, figure: float) -> float:
        """The largest of all ranks' figures; also a barrier."""

    def __enter__(self) -> TimedOperations: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
