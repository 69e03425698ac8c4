"""What the samplers of all nodes read in the measured window: means, energy, throttling, other processes on the hosts.

Each node has a sampler and a clock of its own: its readings are compared only with the phases of its own ranks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from llmperf.measuring.host_load import other_share
from llmperf.runfolder.means import finite_mean

if TYPE_CHECKING:
    from llmperf.runfolder.contents import RunRecords
    from llmperf.types.records import MemorySample

Span = tuple[float, float]
"""Begin and end, seconds of the monotonic clock of one node."""
DeviceKey = tuple[int, int]
"""Node, and index of a device on it."""
Source = Literal["counter", "power readings"]
Curve = list[tuple[float, float]]
"""Time and joules drawn until then, both rising."""

FEWEST_READINGS = 3
"""Smallest number of readings in the window: with fewer, its edges weigh more than the time between them."""
COVERED = 0.9
"""Share of the window that the readings must cover for the energy to be known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Energy:
    """Of all devices in the measured window."""

    joules: float
    watts: float
    """Of a device, on average."""
    source: Source


def windows(records: RunRecords) -> dict[int, Span]:
    """When every rank of a node was in its measured window, for each node where that was ever so."""
    layout = records.plan.layout
    begins: dict[int, list[float]] = defaultdict(list)
    ends: dict[int, list[float]] = defaultdict(list)
    for phase in records.phases:
        node = layout.node_of(phase.rank)
        if phase.phase == "measuring":
            begins[node].append(phase.monotonic)
        elif phase.phase in ("evaluating", "done"):
            ends[node].append(phase.monotonic)
    spans = {node: (max(begins[node]), min(ends[node])) for node in sorted(begins) if node in ends}
    return {node: span for node, span in spans.items() if span[0] < span[1]}


def readings(records: RunRecords) -> list[MemorySample]:
    """The samples that were taken in the measured windows of their nodes."""
    return [
        sample
        for node, (begin, end) in windows(records).items()
        for sample in records.samples_by_node.get(node, ())
        if begin <= sample.monotonic <= end
    ]


def mean(records: RunRecords, name: str) -> float | None:
    """Mean of one figure over the devices, of each of them over the window; None unless every device showed it.

    A card of two chips may show its power on one of them: that is no chip's own.
    """
    known = _known(readings(records), name)
    return finite_mean([finite_mean(values) for values in known.values()]) if len(known) == devices(records) else None


def most(records: RunRecords, name: str) -> int | None:
    """The largest value of one figure on any device in the whole run; None unless every device showed it."""
    known = _known(records.samples, name)
    return max(map(max, known.values())) if len(known) == devices(records) else None


def partly_shown(records: RunRecords) -> dict[str, int]:
    """Figures that only some devices showed, with the number of these devices; the figures are then null."""
    shown = {
        "memory in use": _known(records.samples, "memory_used_bytes"),
        **{name.split("_")[0]: _known(readings(records), name) for name in ("utilisation_percent", "power_watts")},
        "throttling": _known(readings(records), "throttle_reasons"),
    }
    return {name: len(known) for name, known in shown.items() if 0 < len(known) < devices(records)}


def _known(samples: Iterable[MemorySample], name: str) -> dict[DeviceKey, list[Any]]:
    """The known values of a figure by device."""
    by_device: dict[DeviceKey, list[Any]] = defaultdict(list)
    for sample in samples:
        for device in sample.devices:
            if (value := getattr(device, name)) is not None:
                by_device[sample.node_rank, device.index].append(value)
    return by_device


def unread(records: RunRecords) -> tuple[float, float] | None:
    """Seconds of the measured window in which not every device was read, and the length of the window.

    Of several nodes, those of the node where the most was missed. None if no device was ever read.
    """
    missed = [
        missing
        for node, span in windows(records).items()
        if (missing := _unread(records.samples_by_node.get(node, ()), span)) is not None
    ]
    return max(missed, default=None)


def _unread(samples: Iterable[MemorySample], span: Span) -> tuple[float, float] | None:
    known: dict[int, list[float]] = defaultdict(list)
    for sample in samples:
        for device in sample.devices:
            if device.memory_used_bytes is not None or device.power_watts is not None:
                known[device.index].append(sample.monotonic)
    if not known:
        return None
    begin, end = max(span[0], *map(min, known.values())), min(span[1], *map(max, known.values()))
    whole = span[1] - span[0]
    return whole - max(0.0, end - begin), whole


def throttling(records: RunRecords) -> dict[str, float] | None:
    """For each reason, the share of the window's samples in which any device of a node was slowed; of several nodes the
    largest share. None where unknown, also of one device alone.
    """
    samples = readings(records)
    if len(_known(samples, "throttle_reasons")) != devices(records):
        return None
    by_node: dict[int, list[set[str]]] = defaultdict(list)
    for sample in samples:
        if any(device.throttle_reasons is not None for device in sample.devices):
            reasons: set[str] = {reason for device in sample.devices for reason in device.throttle_reasons or ()}
            by_node[sample.node_rank].append(reasons)
    if not by_node:
        return None
    shares: dict[str, float] = {}
    for seen in by_node.values():
        for reason in set().union(*seen):
            share = sum(reason in reasons for reasons in seen) / len(seen)
            shares[reason] = max(share, shares.get(reason, 0.0))
    return dict(sorted(shares.items()))


def energy(records: RunRecords, window_seconds: float | None) -> Energy | None:
    """Mean power of all devices in the common window of their node's ranks x the seconds of the slowest rank's window.

    None unless the readings are of every device, at least three of them in each node's window and over 90 % of it.
    """
    spans = windows(records)
    if window_seconds is None or not spans:
        return None
    read = Counter(sample.node_rank for sample in readings(records))
    if any(read[node] < FEWEST_READINGS for node in spans):
        return None
    ways: tuple[tuple[Source, dict[DeviceKey, Curve]], ...]
    ways = (("counter", _counted(records)), ("power readings", _integrated(records)))
    for source, curves in ways:
        watts = [_mean_watts(curve, spans[node]) for (node, _), curve in curves.items() if node in spans]
        known = [power for power in watts if power is not None]
        if len(known) == devices(records):
            return Energy(joules=sum(known) * window_seconds, watts=sum(known) / len(known), source=source)
    return None


def devices(records: RunRecords) -> int:
    """Devices of the whole run; where ranks share one, it counts once on each node."""
    plan = records.plan
    each = len(plan.probe.devices) if plan.device_share < 1 else plan.layout.devices_per_node
    return plan.layout.nodes * each


def _counted(records: RunRecords) -> dict[DeviceKey, Curve]:
    """The energy counter of each device, except counters that went back."""
    curves = _curves(records, "energy_joules")
    return {key: curve for key, curve in curves.items() if all(a[1] <= b[1] for a, b in pairwise(curve))}


def _integrated(records: RunRecords) -> dict[DeviceKey, Curve]:
    """Each device's power added up over time, by trapezoids."""
    return {key: _integral(curve) for key, curve in _curves(records, "power_watts").items()}


def _integral(powers: Curve) -> Curve:
    total, curve = 0.0, [(powers[0][0], 0.0)]
    for (before, watts), (at, more) in pairwise(powers):
        total += (at - before) * (watts + more) / 2
        curve.append((at, total))
    return curve


def _curves(records: RunRecords, name: str) -> dict[DeviceKey, Curve]:
    by_device: dict[DeviceKey, Curve] = defaultdict(list)
    for node, samples in records.samples_by_node.items():
        for sample in samples:
            for device in sample.devices:
                if (value := getattr(device, name)) is not None:
                    by_device[node, device.index].append((sample.monotonic, value))
    return by_device


def _mean_watts(curve: Curve, span: Span) -> float | None:
    begin, end = max(span[0], curve[0][0]), min(span[1], curve[-1][0])
    if end - begin < COVERED * (span[1] - span[0]):
        return None
    return (_until(curve, end) - _until(curve, begin)) / (end - begin)


def _until(curve: Curve, at: float) -> float:
    """Joules drawn until a time within the curve, on the straight line between two readings."""
    place = min(max(bisect_right(curve, at, key=lambda point: point[0]), 1), len(curve) - 1)
    (before, low), (after, high) = curve[place - 1], curve[place]
    return low if after == before else low + (high - low) * (at - before) / (after - before)


def other_cpu_share(records: RunRecords) -> float | None:
    """Share of the cores that other processes used in the measured window, on the node where it was largest.

    None with fewer than two samples near it on every node.
    """
    samples = records.samples_by_node
    shares = [_other_cpu_share(samples.get(node, ()), span) for node, span in windows(records).items()]
    return max((share for share in shares if share is not None), default=None)


def _other_cpu_share(samples: Iterable[MemorySample], span: Span) -> float | None:
    """Of one node. If the samples inside cover less than half of the window, those before and after it count too."""
    begin, end = span
    hosts = [(sample.monotonic + sample.query_seconds, sample.host) for sample in samples if sample.host is not None]
    inside = [host for host in hosts if begin <= host[0] <= end]
    if not inside or inside[-1][0] - inside[0][0] < (end - begin) / 2:
        before, after = [host for host in hosts if host[0] < begin], [host for host in hosts if host[0] > end]
        inside = before[-1:] + inside + after[:1]
    return other_share(inside)


def other_cpu_share_before(records: RunRecords) -> float | None:
    """The same just before the start."""
    shares = (host.other_cpu_share for host in records.hosts.values())
    return max((share for share in shares if share is not None), default=None)


def other_processes(records: RunRecords) -> int | None:
    """Largest number of processes of others on the devices of a node, in any sample of the window; None if unknown."""
    counts = [sample.host.other_processes for sample in readings(records) if sample.host is not None]
    return max((count for count in counts if count is not None), default=None)


def other_processes_before(records: RunRecords) -> int | None:
    """The same just before the start."""
    counts = (host.other_processes for host in records.hosts.values())
    return max((count for count in counts if count is not None), default=None)
