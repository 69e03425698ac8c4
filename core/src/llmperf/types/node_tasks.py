"""Tasks of the program on each node, and the measurements of nodes before a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from llmperf.types.units import Count, NonNegative

if TYPE_CHECKING:
    from llmperf.errors import UserError


class NodeWork(Protocol):
    """The node's side of a task, from the first time that it is asked for."""

    def answer(self, arguments: Mapping[str, Any]) -> object:
        """Answer a task; arguments and answer are JSON. UserError, with one line, if it cannot be done."""

    def close(self) -> None:
        """End what was started; called when the node program ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTask:
    """A task that the controller may give to the program on each node."""

    name: str
    """Name by which the controller asks for it."""
    begin: Callable[[int], NodeWork]
    """Called on a node, with its rank, when the task is asked for the first time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedNode:
    """A node that has answered."""

    host: str
    """Host as the launcher takes it."""
    address: str
    """Address for the ranks of other nodes."""
    interface: str | None
    """Interface with that address; None if no interface of the node has it."""
    machine: str | None
    """Nodes with one value share a machine; None if it is unknown."""
    accelerators: int
    """Devices of the vendor beside processors; 0 if they are simulated."""


class ReachedNodes(Protocol):
    """The nodes of a run that is about to start, or those that `llmperf doctor` looks at."""

    @property
    def nodes(self) -> Sequence[ReachedNode]:
        """Nodes by rank, without those that failed before."""

    @property
    def failed(self) -> int:
        """Nodes that were asked and could not be used."""

    def ask(self, name: str, arguments: object, seconds: float) -> dict[int, Any | UserError]:
        """Give a task to all nodes: for each rank the answer as plain JSON values, or an error that names the node.

        `arguments` is a dataclass or a mapping that JSON can hold. `seconds` is the time limit.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesChecked:
    """Outcome of a check of nodes."""

    show: Callable[[], None]
    """Prints it; called unless a run is refused."""
    problems: Sequence[str] = ()
    """One line for each reason for which a run is refused, and `llmperf doctor` exits with 1."""
    notes: Sequence[str] = ()
    """Notes for the plan of the run."""
    document: Mapping[str, Any] = field(default_factory=dict)
    """Additions to the output of `llmperf doctor --json`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairEnd:
    """One of two nodes that measure together."""

    rank: Count
    """0 or 1."""
    address: str
    """Address of the end with rank 0, which listens for the other."""
    port: Count
    """Port at which it listens."""
    interface: str | None
    """Network interface of this node over which both reach each other; None if it is unknown."""
    on_cpu: bool
    """The devices are the host's processors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreeningCheck:
    """A short measurement of a node; each node is compared with the others."""

    name: str
    """Name of the measurement, such as `matrix product`."""
    unit: str
    """Unit of the figure, such as `FLOP/s`. More must be better."""
    scope: Literal["host", "device", "pair"]
    """Owner of one figure: a node, one of its accelerators, or two nodes together."""
    measure: Callable[..., float]
    """Called in a process of its own on the node, for about a second. Heavy imports belong inside.

    Its only argument: none for `host`, the position of the device among the visible ones for `device`, a `PairEnd` for
    `pair`, where both nodes call it at the same time. It raises RuntimeError with one line if it cannot be made, and
    TimeoutError if data of the other node does not arrive."""
    tolerance: NonNegative = 0.15
    """Share by which a figure may be below the median of the other nodes."""
