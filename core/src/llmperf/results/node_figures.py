"""The hosts of a run: common facts, differences of each node, and ranks that made the others wait."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import islice
from statistics import fmean, median
from typing import TYPE_CHECKING

from llmperf.runfolder.contents import RunRecords
from llmperf.types.hosts import MAX_DIFFERENCES, MAX_STRAGGLERS, STRAGGLER_SHARE, NodeResult, Straggler, Waiting

if TYPE_CHECKING:
    from llmperf.runfolder.contents import RunRecords


Facts = Mapping[str, str | int | None]
"""Facts of a host, by field of `Hardware` and `Software`; `packages.NAME`, `environment.NAME` and
`startup_modules.NAME`."""

PACKAGES = "packages"
"""Among the facts of a node whose ranks have recorded their packages."""
SAME_MEMORY = 0.01
"""Hosts with equal memory differ by less, in what their firmware and kernels reserve."""


def node_facts(records: RunRecords) -> dict[int, Facts]:
    """Recorded facts of each node; without nodes of which nothing is."""
    packages: dict[int, Mapping[str, str]] = {}
    modules: dict[int, dict[str, str]] = defaultdict(dict)
    for rank in records.ranks:
        packages.setdefault(records.plan.layout.node_of(rank.rank), rank.packages)
        modules[records.plan.layout.node_of(rank.rank)].update(rank.startup_modules)
    facts: dict[int, Facts] = {}
    for node in sorted(records.hosts.keys() | packages.keys()):
        host, versions = records.hosts.get(node), dict(packages.get(node, {}))
        known: dict[str, str | int | None] = {}
        if host is not None:
            known |= {"os": host.os, "kernel": host.kernel, "host_cpu": host.cpu, "driver": host.driver}
            known["host_memory_bytes"] = host.memory_bytes
            known |= {f"environment.{name}": value for name, value in host.environment.items()}
        known["python"] = versions.pop("python", None) or (None if host is None else host.python)
        if node in packages:
            known[PACKAGES] = None
        known |= {f"startup_modules.{name}": file for name, file in modules[node].items()}
        facts[node] = {**known, **{f"packages.{name}": version for name, version in versions.items()}}
    return facts


def common_facts(facts: Mapping[int, Facts]) -> Facts:
    """Facts that most nodes share; of equally frequent values that of the first node."""
    names = dict.fromkeys(name for known in facts.values() for name in known)
    common = {}
    for name in names:
        values = (known.get(name) for known in facts.values() if _recorded(name, known))
        value = Counter(values).most_common(1)[0][0]
        if value is not None:
            common[name] = value
    return common


def node_results(records: RunRecords) -> tuple[NodeResult, ...]:
    """Each node of a run through a launcher."""
    if not records.nodes:
        return ()
    facts, layout = node_facts(records), records.plan.layout
    common = common_facts(facts)
    results = []
    for node in range(layout.nodes):
        reached, first = records.nodes.get(node), node * layout.devices_per_node
        differences = _differences(facts[node], common) if node in facts else {}
        results.append(
            NodeResult(
                node_rank=node,
                host=records.plan.nodes[node].host if node < len(records.plan.nodes) else "unknown",
                interface=reached.interface if reached else None,
                first_rank=first,
                last_rank=first + layout.devices_per_node - 1,
                coordinates=layout.node_coordinates(node),
                clock_offset_seconds=reached.clock_offset_seconds if reached else None,
                clock_error_seconds=reached.clock_error_seconds if reached else None,
                lost_seconds=reached.lost_seconds if reached else None,
                differs=dict(islice(differences.items(), MAX_DIFFERENCES)),
                more_differences=max(0, len(differences) - MAX_DIFFERENCES),
            )
        )
    return tuple(results)


def _differences(known: Facts, common: Facts) -> dict[str, str | int | None]:
    return {
        name: known.get(name)
        for name in dict.fromkeys([*common, *known])
        if _recorded(name, known) and not _same(name, known.get(name), common.get(name))
    }


def _recorded(name: str, known: Facts) -> bool:
    """Check whether anything of that kind is recorded of a node: packages by its ranks, the rest by its host."""
    return PACKAGES in known if name.startswith(("packages.", "startup_modules.")) else name in known or "os" in known


def _same(name: str, value: str | int | None, usual: str | int | None) -> bool:
    if name == "host_memory_bytes" and isinstance(value, int) and isinstance(usual, int):
        return abs(value - usual) <= SAME_MEMORY * usual
    return value == usual


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
        share=fmean(shares),
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
    nodes = sorted({layout.node_of(rank) for rank in late})
    each = layout.devices_per_node
    return tuple(node for node in nodes if all(rank in late for rank in range(node * each, (node + 1) * each)))
