"""Ranks that made the others wait, and how much time that cost.

Step times do not show a slow rank: collectives make all ranks take the same time. What shows it is the time in which a
rank did not wait for the others.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING

from llmperf.runfolder.loss_curve import finite_mean
from llmperf.types.node_results import MAX_STRAGGLERS, STRAGGLER_SHARE, Straggler, Waiting

if TYPE_CHECKING:
    from llmperf.runfolder.contents import RunRecords

SPREADS = 10.0
"""A straggler lags by more than this many median absolute deviations of the faster half of its peers."""
METHOD = (
    "busy time of a rank = its measured window - its waits for communication; a straggler is busy for longer than the"
    f" median of the other ranks of its pipeline stage, by more than {100 * STRAGGLER_SHARE:.0f} % and by more than"
    f" {SPREADS:g} median absolute deviations of the faster half of these ranks; with a single other rank to compare"
    " with, a slow connection or chance may look the same"
)


def waiting(records: RunRecords) -> Waiting | None:
    """Waits and stragglers; None unless every rank of several has measured its waits."""
    known = {
        rank.rank: (rank.window_seconds, rank.communication_seconds)
        for rank in records.ranks
        if rank.communication_seconds is not None and rank.window_seconds > 0
    }
    if len(known) < 2 or len(known) != records.plan.layout.world_size:
        return None
    shares = [min(1.0, waits / window) for window, waits in known.values()]
    busy = {rank: max(0.0, window - waits) for rank, (window, waits) in known.items()}
    layout = records.plan.layout
    peers: dict[int, list[int]] = defaultdict(list)
    for rank in sorted(busy):
        peers[layout.coordinate(rank, "pipeline")].append(rank)
    late: list[Straggler] = []
    cost = 0.0
    for ranks in peers.values():
        stage = {rank: busy[rank] for rank in ranks}
        lags = dict(_lags(stage))
        late += [
            Straggler(rank=rank, node_rank=layout.node_of(rank), busy_seconds=busy[rank], lag_seconds=lags[rank])
            for rank in lags
        ]
        if lags:
            others = [seconds for rank, seconds in stage.items() if rank not in lags]
            cost = max(cost, max(busy[rank] for rank in lags) - max(others))
    late.sort(key=lambda straggler: (-straggler.lag_seconds, straggler.rank))
    return Waiting(
        share=finite_mean(shares) or 0.0,
        least_share=min(shares),
        most_share=max(shares),
        stragglers=tuple(late[:MAX_STRAGGLERS]),
        more_stragglers=max(0, len(late) - MAX_STRAGGLERS),
        slow_nodes=_whole_nodes(records, {straggler.rank for straggler in late}),
        cost_seconds=max(0.0, cost),
        method=METHOD,
    )


def _lags(busy: dict[int, float]) -> Iterator[tuple[int, float]]:
    """Each straggler among ranks that do the same work, with its lag in seconds."""
    ordered = sorted(busy.values())
    if len(ordered) < 2:
        return
    faster = ordered[: (len(ordered) + 1) // 2]
    spread = median(abs(seconds - median(faster)) for seconds in faster)
    for rank, seconds in busy.items():
        usual = _median_without(ordered, bisect_left(ordered, seconds))
        lag = seconds - usual
        if lag > STRAGGLER_SHARE * usual and lag > SPREADS * spread:
            yield rank, lag


def _median_without(ordered: list[float], place: int) -> float:
    """Median of a sorted list without the value at one place."""

    def at(index: int) -> float:
        return ordered[index + (index >= place)]

    rest = len(ordered) - 1
    return (at((rest - 1) // 2) + at(rest // 2)) / 2


def _whole_nodes(records: RunRecords, late: set[int]) -> tuple[int, ...]:
    layout = records.plan.layout
    layout = records.plan.layout
    nodes = sorted({layout.node_of(rank) for rank in late})
    each = layout.devices_per_node
    return tuple(node for node in nodes if all(rank in late for rank in range(node * each, (node + 1) * each)))
