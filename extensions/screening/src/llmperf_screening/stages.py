"""The stages of a screening: what the controller asks of a node, and what the node may answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from llmperf import printable
from llmperf.errors import UserError
from llmperf.types import PairEnd
from llmperf.types.units import Count, NonNegative

TASK = "screen"
"""Name of the task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Where a node listens."""

    address: str
    port: Count
    """For connections of the screening itself."""
    free_port: Count
    """Nothing listens there yet: for the checks of two nodes together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenTask:
    """One stage of the screening. It goes to all nodes; each does its part."""

    stage: Literal["listen", "checks", "reach", "transfer", "collective"]
    """`listen`: open a port. `checks`: checks of the host and its devices. `reach`: connect to the peers.
    `transfer`: send to and receive from one peer. `collective`: checks of two nodes together."""
    secret: str = ""
    """Secret with which a node begins a connection to another."""
    addresses: tuple[str, ...] = ()
    """`listen`: address of each node, by rank; empty for a node that does not take part."""
    ranks: tuple[Count, ...] = ()
    """`checks`: nodes whose turn it is; the others answer nothing."""
    devices: tuple[Count, ...] = ()
    """`checks`: accelerators that each node measures, by their position among the visible ones."""
    peers: tuple[Peer, ...] = ()
    """Where each node listens, by rank."""
    partners: tuple[tuple[Count, ...], ...] = ()
    """`reach`: the nodes to which each node connects. `transfer`, `collective`: the node's partner, if it has one."""
    interfaces: tuple[str | None, ...] = ()
    """`collective`: interface of each node, by rank."""
    on_cpu: bool = True
    """`collective`: whether the devices are the hosts' processors."""
    number: Count = 0
    """`transfer`: distinguishes its connections from those of other rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured figure of a node."""

    check: str
    unit: str
    device: Count | None = None
    """Position of the accelerator; None for the host."""
    value: NonNegative | None
    """None if it could not be measured."""
    problem: str | None = None
    """The reason why not."""
    timed_out: bool = False
    """It could not be measured because data of the other node did not arrive in time."""
    tolerance: NonNegative = 0.15
    """Share by which it may be below the median of the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contact:
    """One attempt of a node to reach another, or a transfer between them."""

    peer: Count
    """Rank of the other node."""
    problem: str | None = None
    """The reason why it failed."""
    latency_seconds: NonNegative | None = None
    """Median time for a byte there and back."""
    sent_bytes_per_second: NonNegative | None = None
    """To the other node, as it counted them."""
    received_bytes_per_second: NonNegative | None = None
    """From the other node."""
    path_mtu: Count | None = None
    """Largest packet on the way there, in bytes, as the kernel knows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenAnswer:
    """A node's answer to one stage."""

    port: Count = 0
    """`listen`: where it listens."""
    free_port: Count = 0
    """`listen`: a further port that nothing uses."""
    figures: tuple[Figure, ...] = ()
    contacts: tuple[Contact, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest:
    """Request to the process that measures on a node; an answer is a tuple of figures."""

    scope: Literal["host", "device", "pair"]
    devices: tuple[Count, ...] = ()
    pair: PairEnd | None = None


T = TypeVar("T", Figure, Contact)

MAX_CHECKS = 128
"""Different checks in one answer."""
MAX_NAME = 100
"""Characters of the name or the unit of a check."""
MAX_REASON = 400
"""Characters of a reason."""
MAX_PORT = 65535


def checked_answer(answer: ScreenAnswer, task: ScreenTask, rank: int, where: str) -> ScreenAnswer:
    """The answer of a node with clean texts; UserError for one that does not fit to the task."""
    most = MAX_PORT if task.stage == "listen" and task.addresses[rank] else 0
    for name, port in (("port", answer.port), ("free_port", answer.free_port)):
        if port > most:
            raise UserError(f"{where}: {name}: expected at most {most}, found {port}")
    partners = task.partners[rank] if task.stage in ("reach", "transfer", "collective") else ()
    expects_figures = rank in task.ranks if task.stage == "checks" else task.stage == "collective" and bool(partners)
    if answer.figures and not expects_figures:
        raise UserError(f"{where}: figures: expected none in the stage {task.stage!r}, found {len(answer.figures)}")
    known: set[tuple[str, int | None]] = set()  # each check once for the host and for each device of the task
    for figure in answer.figures:
        for name, text in (("check", figure.check), ("unit", figure.unit)):
            if len(text) > MAX_NAME or not text.isprintable():
                expects = f"expected a printable text of at most {MAX_NAME} characters"
                raise UserError(f"{where}: {name}: {expects}, found {text[:MAX_NAME]!r}")
        if figure.device is not None and figure.device not in task.devices:
            raise UserError(
                f"{where}: {figure.check}: expected a device in {list(task.devices)}, found {figure.device}"
            )
        if (figure.check, figure.device) in known:
            raise UserError(f"{where}: {figure.check}: expected one figure for each device, found several")
        known.add((figure.check, figure.device))
        if len({check for check, _ in known}) > MAX_CHECKS:
            raise UserError(f"{where}: figures: expected at most {MAX_CHECKS} checks, found more")
    expected = partners if task.stage in ("reach", "transfer") else ()
    peers = [contact.peer for contact in answer.contacts]
    if len(set(peers)) != len(peers) or not set(peers) <= set(expected):
        raise UserError(f"{where}: contacts: expected {list(expected)}, each once, found {peers!s:.80}")
    for contact in answer.contacts:
        if contact.peer < rank and (contact.sent_bytes_per_second, contact.received_bytes_per_second) != (None, None):
            raise UserError(f"{where}: contacts: expected the transfer rate from the node of the lower rank")

    def clean(item: T) -> T:
        return item if item.problem is None else replace(item, problem=short(item.problem))

    return replace(answer, figures=tuple(map(clean, answer.figures)), contacts=tuple(map(clean, answer.contacts)))


def short(text: str) -> str:
    """A reason that a node gives, without control characters."""
    return printable(text[:MAX_REASON])
