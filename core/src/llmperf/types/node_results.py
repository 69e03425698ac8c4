"""The parts of a result that are about nodes: what each has, and which ranks made others wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from llmperf.types.frozen import dataclass
from llmperf.types.layout import RankDimension
from llmperf.types.units import Count, NonNegative

MAX_DIFFERENCES = 32
"""Differences that a result lists of one node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResult:
    """One node of a run: its ranks, and what is different from most nodes."""

    node_rank: Count
    """Rank of the node, from 0."""
    host: str
    """Its name, as the launcher takes it; `node-000` and so on in a submission."""
    interface: str | None
    """Network interface that its ranks used to reach others; None if unknown."""
    first_rank: Count
    """The first of its ranks, whose local rank is 0; the others follow one another."""
    last_rank: Count
    """The last of its ranks."""
    coordinates: Mapping[RankDimension, tuple[Count, Count]]
    """Lowest and highest index of its ranks in each dimension of more than one rank. `parallelism.rank_order` says how
    ranks are numbered."""
    clock_offset_seconds: float | None
    """Its wall clock minus the controller's; None if unknown. No figure depends on it."""
    clock_error_seconds: NonNegative | None
    """Largest error of that offset."""
    lost_seconds: NonNegative | None = None
    """Silence of the node before the controller gave it up; None if it was never lost."""
    differs: Mapping[str, str | int | None] = field(default_factory=dict)
    """Differences from `hardware` and `software`, by field; `packages.NAME`, `environment.NAME` and
    `startup_modules.NAME` for single packages, variables and modules. None: it has none, or it is unknown."""
    more_differences: Count = 0
    """Further differences, which are not listed."""


STRAGGLER_SHARE = 0.05
"""A rank is a straggler only if it was busy for longer than its peers by more than this share."""
MAX_STRAGGLERS = 64
"""Stragglers that a result lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Straggler:
    """A rank that the others waited for."""

    rank: Count
    """The rank."""
    node_rank: Count
    """The node that it ran on."""
    busy_seconds: NonNegative
    """Measured window without waits for communication."""
    lag_seconds: NonNegative
    """Excess over the median of its peers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Waits of computation for communication in the measured window, and the ranks that made others wait."""

    share: NonNegative
    """Mean over ranks: waits / measured window. Communication beside computation is not counted."""
    least_share: NonNegative
    """Share of the rank that waited least."""
    most_share: NonNegative
    """Share of the rank that waited most."""
    stragglers: tuple[Straggler, ...]
    """The slowest first, at most MAX_STRAGGLERS."""
    more_stragglers: Count = 0
    """Further ones, which are not listed."""
    slow_nodes: tuple[Count, ...] = ()
    """Nodes of which every rank is a straggler."""
    cost_seconds: NonNegative
    """Time by which the measured window might have been shorter if the stragglers had been as fast as the slowest of
    their other peers; 0 without stragglers."""
    method: str
    """Method by which stragglers were found."""
