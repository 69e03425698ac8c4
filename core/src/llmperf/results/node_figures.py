"""The nodes of a run: their hosts, what else ran there, figures of devices, and ranks that made the others wait."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import fmean, median
from typing import Any

from llmperf.runfolder.contents import RunRecords
from llmperf.runfolder.readings import COVERED, DeviceReadings, HostLoad
from llmperf.types.hosts import (
    MAX_DIFFERENCES,
    MAX_STRAGGLERS,
    STRAGGLER_SHARE,
    Hardware,
    NodeConditions,
    NodeResult,
    Software,
    Straggler,
    Waiting,
)

Facts = Mapping[str, str | int | None]
"""Facts of a host, by field of `Hardware` and `Software`; `packages.NAME`, `environment.NAME` and
`startup_modules.NAME`."""

PACKAGES = "packages"
"""Among the facts of a node whose ranks have recorded their packages."""
SAME_MEMORY = 0.01
"""Hosts with equal memory differ by less, in what their firmware and kernels reserve."""


@dataclass(frozen=True)
class NodeFigures:
    """The parts of a result that its nodes give."""

    hardware: Hardware
    software: Software
    nodes: tuple[NodeResult, ...]
    conditions: tuple[NodeConditions, ...]
    waiting: Waiting | None
    notes: tuple[str, ...]
    metrics: Mapping[str, Any]
    """Fields of `Metrics`."""


def node_figures(records: RunRecords) -> NodeFigures:
    """All that the hosts, devices and ranks of a run show of its nodes."""
    facts, common = node_facts(records)
    plan, shown = records.plan, [device for node in records.readings.values() for device in node.devices.values()]
    each = len(plan.probe.devices) if plan.device_share < 1 else plan.layout.devices_per_node
    whole = plan.layout.nodes * each  # devices of the whole run; where ranks share one, it counts once on each node
    return NodeFigures(
        hardware=hardware(records, common),
        software=software(records, common),
        nodes=node_results(records, facts, common),
        conditions=node_conditions(records),
        waiting=waiting(records),
        notes=tuple(device_notes(records, shown, whole)),
        metrics={**use_by_others(records), **device_figures(records, shown, whole)},
    )


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


def hardware(records: RunRecords, common: Facts) -> Hardware:
    """The machine as probed, and what most hosts have."""
    plan = records.plan
    device = plan.probe.devices[0]
    driver = common.get("driver")
    memory, cpu = common.get("host_memory_bytes"), common.get("host_cpu")
    return Hardware(
        vendor=plan.vendor,
        device_model=device.model,
        nodes=plan.layout.nodes,
        devices_per_node=plan.layout.devices_per_node,
        device_share=plan.device_share,
        device_memory_bytes=device.memory_bytes,
        driver=plan.probe.driver if driver is None else str(driver),
        interconnect=plan.probe.interconnect,
        host_cpu=None if cpu is None else str(cpu),
        host_memory_bytes=None if memory is None else int(memory),
        simulated=plan.probe.simulated,
    )


def software(records: RunRecords, common: Facts) -> Software:
    """Software of the ranks of most nodes; a host's own Python where no rank got to say its own."""
    interpreter = records.plan.interpreter

    def named(prefix: str) -> dict[str, str]:
        return {name[len(prefix) :]: str(value) for name, value in common.items() if name.startswith(prefix)}

    return Software(
        os=str(common.get("os", "unknown")),
        kernel=str(common.get("kernel", "unknown")),
        python=str(common.get("python", "unknown")),
        worker_environment=None if interpreter is None else interpreter.environment or interpreter.path,
        packages=named("packages."),
        notable_packages=next((host.notable_packages for host in records.hosts.values()), ()),
        environment=named("environment."),
        startup_modules=named("startup_modules."),
    )


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


FEWEST_READINGS = 3
"""Smallest number of readings in the window: with fewer, its edges weigh more than the time between them."""


def device_figures(records: RunRecords, shown: Sequence[DeviceReadings], whole: int) -> dict[str, Any]:
    """Fields of `Metrics` by the devices that were `shown`; None where not every one of the `whole` showed a figure.

    Memory is the largest on any device in the whole run, utilisation and power are means over the devices. A card of
    two chips may show its power on one of them: that is no chip's own. Throttling has the share of the window's samples
    in which any device of a node was slowed, by reason; of several nodes the largest share. Energy is the mean power of
    all devices in the common window of their node's ranks x the seconds of the slowest rank's window; the readings must
    be at least three in each node's window, and cover 90 % of it.
    """
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
    if records.window_seconds is None or not inside or min(inside) < FEWEST_READINGS:
        return figures
    ours = [device for node in records.windows for device in records.readings[node].devices.values()]
    counters = [device.counted.watts() for device in ours if device.counted.rising]
    for source, watts in (("counter", counters), ("power readings", [device.integral.watts() for device in ours])):
        powers = [power for power in watts if power is not None]
        if len(powers) == whole:
            joules, mean_watts = sum(powers) * records.window_seconds, sum(powers) / whole
            return {**figures, "energy_joules": joules, "energy_source": source, "power_watts": mean_watts}
    return figures


UNREAD_SECONDS = 5.0
"""Several readings: a short window may lie between two."""


def device_notes(records: RunRecords, shown: Sequence[DeviceReadings], whole: int) -> Iterator[str]:
    """Notes on figures that some devices, or some times of the window, do not have."""
    for name, count in (
        ("memory in use", sum(device.memory_used_bytes is not None for device in shown)),
        ("utilisation", sum(device.utilisation_percent.count > 0 for device in shown)),
        ("power", sum(device.power_watts.count > 0 for device in shown)),
        ("throttling", sum(device.throttle_known for device in shown)),
    ):
        if 0 < count < whole:
            yield f"{name}: shown by {count} of {whole} devices, so that it is not known of all: null"
    missed = []  # seconds of each node's window in which not every device was read, and its length
    for node in records.windows.keys() & records.readings.keys():
        devices, (window_begin, window_end) = records.readings[node].devices.values(), records.windows[node]
        if spans := [(device.first, device.last) for device in devices if device.first is not None]:
            begin, end = max(window_begin, *(span[0] for span in spans)), min(window_end, *(span[1] for span in spans))
            missed.append((window_end - window_begin - max(0.0, end - begin), window_end - window_begin))
    unread, window = max(missed, default=(0.0, 0.0))
    if unread > max(UNREAD_SECONDS, (1 - COVERED) * window):
        yield (
            f"the devices were read over {100 * (1 - unread / window):.0f} % of the measured window only: their"
            " memory, utilisation and power are of that part"
        )


def use_by_others(records: RunRecords) -> dict[str, Any]:
    """Fields of `Metrics` on cores (by two samples near the window) and devices used by others, of the busiest node."""
    hosts = [host.load for host in records.hosts.values() if host.load is not None]
    known: dict[str, list[Any]] = {
        "other_cpu_share": [node.load.share for node in records.readings.values()],
        "other_cpu_share_before": [load.other_cpu_share for load in hosts],
        "other_processes": [node.other_processes for node in records.readings.values()],
        "other_processes_before": [load.other_processes for load in hosts],
    }
    return {name: max((each for each in of if each is not None), default=None) for name, of in known.items()}


def node_conditions(records: RunRecords) -> tuple[NodeConditions, ...]:
    """Activity of others on each node that was read, in node order."""
    conditions = []
    for node in sorted(records.hosts.keys() | records.readings.keys()):
        host, readings = records.hosts.get(node), records.readings.get(node)
        load = HostLoad() if readings is None else readings.load
        known = NodeConditions(
            node_rank=node,
            before=None if host is None else host.load,
            other_cpu_share=load.share,
            most_other_cpu_share=load.most_share,
            programs=load.programs,
            other_processes=None if readings is None else readings.other_processes,
            pressure=load.pressure,
            most_memory_pressure=load.most_memory_pressure,
            least_memory_available_bytes=load.least_memory_available_bytes,
            swapped_bytes=load.swapped_bytes,
            throttling={} if readings is None else readings.throttling_over_time,
            clock_hertz=() if readings is None else readings.clock_over_time,
        )
        if known != NodeConditions(node_rank=node):
            conditions.append(known)
    return tuple(conditions)


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
