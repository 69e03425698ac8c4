"""Screening: short measurements on each node before a run, by which a slow node is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from llmperf.types.units import Count, NonNegative


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
