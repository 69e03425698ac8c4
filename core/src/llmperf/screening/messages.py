"""What the controller asks of a node while it screens, and what the node answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from llmperf.types.screening import PairEnd
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
    """What a node must say first when it connects to another."""
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
    """Name of the check."""
    unit: str
    device: Count | None = None
    """Position of the accelerator; None for the host."""
    value: NonNegative | None
    """None if it could not be measured."""
    problem: str | None = None
    """Why not."""
    timed_out: bool = False
    """Whether it could not be measured because data of the other node did not arrive in time."""
    tolerance: NonNegative = 0.15
    """Share by which it may be below the median of the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contact:
    """One attempt of a node to reach another, or a transfer between them."""

    peer: Count
    """Rank of the other node."""
    problem: str | None = None
    """Why it failed."""
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
    """What the process that measures on a node is asked for; an answer is a tuple of figures."""

    scope: Literal["host", "device", "pair"]
    devices: tuple[Count, ...] = ()
    pair: PairEnd | None = None
