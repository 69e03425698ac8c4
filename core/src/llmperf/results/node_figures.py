"""The nodes of a run: facts and differences of hosts, figures of devices, and ranks that made the others wait."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from statistics import fmean, median
from typing import TYPE_CHECKING, Literal

from llmperf.runfolder.contents import RunRecords
from llmperf.runfolder.readings import COVERED as COVERED
from llmperf.runfolder.readings import DeviceReadings
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


Source = Literal["counter", "power readings"]

FEWEST_READINGS = 3
"""Smallest number of readings in the window: with fewer, its edges weigh more than the time between them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Energy:
    """Energy of all devices in the measured window."""

    joules: float
    watts: float
    """Mean power of a device."""
    source: Source


def mean(records: RunRecords, name: Literal["utilisation_percent", "power_watts"]) -> float | None:
    """Mean of one figure over the devices, of each of them over the window; None unless every device showed it.

    A card of two chips may show its power on one of them: that is no chip's own.
    """
    known = [getattr(device, name).value for device in _devices(records) if getattr(device, name).count]
    return fmean(known) if len(known) == devices(records) else None


def most(records: RunRecords, name: Literal["memory_used_bytes", "memory_total_bytes"]) -> int | None:
    """The largest value of one figure on any device in the whole run; None unless every device showed it."""
    known: list[int] = [size for device in _devices(records) if (size := getattr(device, name)) is not None]
    return max(known) if len(known) == devices(records) else None


def partly_shown(records: RunRecords) -> dict[str, int]:
    """Figures that only some devices showed, with the number of these devices; the figures are then null."""
    ways: dict[str, Callable[[DeviceReadings], bool]] = {
        "memory in use": lambda device: device.memory_used_bytes is not None,
        "utilisation": lambda device: device.utilisation_percent.count > 0,
        "power": lambda device: device.power_watts.count > 0,
        "throttling": lambda device: device.throttle_known,
    }
    shown = {name: sum(map(known, _devices(records))) for name, known in ways.items()}
    return {name: known for name, known in shown.items() if 0 < known < devices(records)}


def _devices(records: RunRecords) -> list[DeviceReadings]:
    return [device for node in records.readings.values() for device in node.devices.values()]


def unread(records: RunRecords) -> tuple[float, float] | None:
    """Seconds of the measured window in which not every device was read, and the length of the window.

    Of several nodes, those of the node where the most was missed. None if no device was ever read.
    """
    missed = []
    for node, span in records.windows.items():
        known = [device for device in records.node_devices(node) if device.first is not None]
        if known:
            begin = max(span[0], *(device.first for device in known if device.first is not None))
            end = min(span[1], *(device.last for device in known))
            missed.append((span[1] - span[0] - max(0.0, end - begin), span[1] - span[0]))
    return max(missed, default=None)


def throttling(records: RunRecords) -> dict[str, float] | None:
    """Share of the window's samples in which any device of a node was slowed, for each reason; of several nodes the
    largest share. None where unknown, also of one device alone.
    """
    if sum(device.throttle_known for device in _devices(records)) != devices(records):
        return None
    shares: dict[str, float] = {}
    for node in records.readings.values():
        for reason, count in node.throttled.items():
            shares[reason] = max(count / node.throttle_known, shares.get(reason, 0.0))
    return dict(sorted(shares.items()))


def energy(records: RunRecords, window_seconds: float | None) -> Energy | None:
    """Mean power of all devices in the common window of their node's ranks x the seconds of the slowest rank's window.

    None unless the readings are of every device, at least three of them in each node's window and over 90 % of it.
    """
    nodes = [records.readings.get(node) for node in records.windows]
    if window_seconds is None or not nodes:
        return None
    if any(node is None or node.inside < FEWEST_READINGS for node in nodes):
        return None
    ours = [device for node in records.windows for device in records.node_devices(node)]
    ways: tuple[tuple[Source, list[float | None]], ...] = (
        ("counter", [device.counted.watts() for device in ours if device.counted.rising]),
        ("power readings", [device.integral.watts() for device in ours]),
    )
    for source, watts in ways:
        known = [power for power in watts if power is not None]
        if len(known) == devices(records):
            return Energy(joules=sum(known) * window_seconds, watts=sum(known) / len(known), source=source)
    return None


def devices(records: RunRecords) -> int:
    """Devices of the whole run; where ranks share one, it counts once on each node."""
    plan = records.plan
    each = len(plan.probe.devices) if plan.device_share < 1 else plan.layout.devices_per_node
    return plan.layout.nodes * each
