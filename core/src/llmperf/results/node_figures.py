"""The nodes of a run: facts and differences of hosts, figures of devices, and ranks that made the others wait."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import islice
from statistics import fmean, median
from typing import Any

from llmperf.runfolder.contents import RunRecords
from llmperf.types.hosts import MAX_DIFFERENCES, MAX_STRAGGLERS, STRAGGLER_SHARE, NodeResult, Straggler, Waiting

Facts = Mapping[str, str | int | None]
"""Facts of a host, by field of `Hardware` and `Software`; `packages.NAME`, `environment.NAME` and
`startup_modules.NAME`."""

PACKAGES = "packages"
"""Among the facts of a node whose ranks have recorded their packages."""
SAME_MEMORY = 0.01
"""Hosts with equal memory differ by less, in what their firmware and kernels reserve."""


def node_facts(records: RunRecords) -> tuple[dict[int, Facts], Facts]:
    """Recorded facts of each node, and those that most of these nodes, else the first, have."""
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
    common = {}
    for name in dict.fromkeys(name for of_node in facts.values() for name in of_node):
        values = (of_node.get(name) for of_node in facts.values() if _recorded(name, of_node))
        value = Counter(values).most_common(1)[0][0]
        if value is not None:
            common[name] = value
    return facts, common


def node_results(records: RunRecords, facts: Mapping[int, Facts], common: Facts) -> tuple[NodeResult, ...]:
    """Each node of a run through a launcher, with what differs from the `common` facts."""
    if not records.nodes:
        return ()
    layout, results = records.plan.layout, []
    for node in range(layout.nodes):
        reached, first, known = records.nodes.get(node), node * layout.devices_per_node, facts.get(node, {})
        differences = {}
        for name in dict.fromkeys([*common, *known]) if node in facts else ():
            value, usual = known.get(name), common.get(name)
            sizes = name == "host_memory_bytes" and isinstance(value, int) and isinstance(usual, int)
            same = abs(value - usual) <= SAME_MEMORY * usual if sizes else value == usual  # type: ignore[operator]
            if _recorded(name, known) and not same:
                differences[name] = value
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


def _recorded(name: str, known: Facts) -> bool:
    """Check whether anything of that kind is recorded of a node: packages by its ranks, the rest by its host."""
    return PACKAGES in known if name.startswith(("packages.", "startup_modules.")) else name in known or "os" in known


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
    for ranks in peers.values():  # which do the same work
        ordered = sorted(busy[rank] for rank in ranks)
        if len(ordered) < 2:
            continue
        faster = ordered[: (len(ordered) + 1) // 2]
        middle = median(faster)
        spread = median(abs(seconds - middle) for seconds in faster)
        low, high = (len(ordered) - 2) // 2, (len(ordered) - 1) // 2  # middle places of all but one
        lags: dict[int, float] = {}
        for rank in ranks:
            place = bisect_left(ordered, busy[rank])
            usual = (ordered[low + (low >= place)] + ordered[high + (high >= place)]) / 2  # median of the others
            lag = busy[rank] - usual
            if lag > STRAGGLER_SHARE * usual and lag > SPREADS * spread:
                lags[rank] = lag
        late += [
            Straggler(rank=rank, node_rank=layout.node_of(rank), busy_seconds=busy[rank], lag_seconds=lag)
            for rank, lag in lags.items()
        ]
        if lags:
            others = [busy[rank] for rank in ranks if rank not in lags]
            cost = max(cost, max(busy[rank] for rank in lags) - max(others))
    late.sort(key=lambda straggler: (-straggler.lag_seconds, straggler.rank))
    slow = Counter(straggler.node_rank for straggler in late)
    return Waiting(
        share=fmean(shares),
        least_share=min(shares),
        most_share=max(shares),
        stragglers=tuple(late[:MAX_STRAGGLERS]),
        more_stragglers=max(0, len(late) - MAX_STRAGGLERS),
        slow_nodes=tuple(node for node in sorted(slow) if slow[node] == layout.devices_per_node),
        cost_seconds=max(0.0, cost),
        method=METHOD,
    )


FEWEST_READINGS = 3
"""Smallest number of readings in the window: with fewer, its edges weigh more than the time between them."""


def device_figures(records: RunRecords, window_seconds: float | None) -> dict[str, Any]:
    """Fields of `Metrics` by the readings of the devices; None where not every device of the run showed a figure.

    Memory is the largest on any device in the whole run, utilisation and power are means over the devices. A card of
    two chips may show its power on one of them: that is no chip's own. Throttling has the share of the window's samples
    in which any device of a node was slowed, by reason; of several nodes the largest share. Energy is the mean power of
    all devices in the common window of their node's ranks x the seconds of the slowest rank's window; the readings must
    be at least three in each node's window, and cover 90 % of it.
    """
    shown, whole = [device for node in records.readings for device in records.node_devices(node)], devices(records)
    figures: dict[str, Any] = {"throttling": None, "energy_joules": None, "energy_source": None}
    for name in ("memory_used_bytes", "memory_total_bytes"):
        sizes = [size for device in shown if (size := getattr(device, name)) is not None]
        figures[f"device_{name}"] = max(sizes) if len(sizes) == whole else None
    for name in ("utilisation_percent", "power_watts"):
        means = [mean.value for device in shown if (mean := getattr(device, name)).count]
        figures[name] = fmean(means) if len(means) == whole else None
    if sum(device.throttle_known for device in shown) == whole:
        shares: dict[str, float] = {}
        for node in records.readings.values():
            for reason, count in node.throttled.items():
                shares[reason] = max(count / node.throttle_known, shares.get(reason, 0.0))
        figures["throttling"] = dict(sorted(shares.items()))
    inside = [records.readings[node].inside if node in records.readings else 0 for node in records.windows]
    if window_seconds is None or not inside or min(inside) < FEWEST_READINGS:
        return figures
    ours = [device for node in records.windows for device in records.node_devices(node)]
    counters = [device.counted.watts() for device in ours if device.counted.rising]
    for source, watts in (("counter", counters), ("power readings", [device.integral.watts() for device in ours])):
        powers = [power for power in watts if power is not None]
        if len(powers) == whole:
            joules, mean_watts = sum(powers) * window_seconds, sum(powers) / whole
            return {**figures, "energy_joules": joules, "energy_source": source, "power_watts": mean_watts}
    return figures


def devices(records: RunRecords) -> int:
    """Devices of the whole run; where ranks share one, it counts once on each node."""
    plan = records.plan
    each = len(plan.probe.devices) if plan.device_share < 1 else plan.layout.devices_per_node
    return plan.layout.nodes * each
