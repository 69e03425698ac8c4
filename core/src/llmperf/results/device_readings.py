"""What the sampler read in the measured window: means, energy, throttling, and other processes on the host."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from llmperf.measuring.host_load import other_share
from llmperf.results.statistics import finite_mean

if TYPE_CHECKING:
    from llmperf.runfolder.contents import RunRecords
    from llmperf.types.records import MemorySample

Span = tuple[float, float]
"""Begin and end, seconds of the monotonic clock of the sampler's host."""
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


def window(records: RunRecords) -> Span | None:
    """When every rank of the first node, where the sampler runs, was in its measured window; None if never."""
    ours = [phase for phase in records.phases if phase.rank < records.plan.layout.devices_per_node]
    begins = [phase.monotonic for phase in ours if phase.phase == "measuring"]
    ends = [phase.monotonic for phase in ours if phase.phase in ("evaluating", "done")]
    return (max(begins), min(ends)) if begins and ends and max(begins) < min(ends) else None


def readings(records: RunRecords) -> list[MemorySample]:
    """The samples that were taken in the measured window."""
    span = window(records)
    return [] if span is None else [sample for sample in records.samples if span[0] <= sample.monotonic <= span[1]]


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


def _known(samples: Iterable[MemorySample], name: str) -> dict[int, list[Any]]:
    """The known values of a figure by the index of the device."""
    by_device: dict[int, list[Any]] = defaultdict(list)
    for sample in samples:
        for device in sample.devices:
            if (value := getattr(device, name)) is not None:
                by_device[device.index].append(value)
    return by_device


def unread(records: RunRecords) -> tuple[float, float] | None:
    """Seconds of the measured window in which not every device was read, and the length of the window.

    None if no device was ever read.
    """
    span = window(records)
    known: dict[int, list[float]] = defaultdict(list)
    for sample in records.samples:
        for device in sample.devices:
            if device.memory_used_bytes is not None or device.power_watts is not None:
                known[device.index].append(sample.monotonic)
    if span is None or not known:
        return None
    begin, end = max(span[0], *map(min, known.values())), min(span[1], *map(max, known.values()))
    whole = span[1] - span[0]
    return whole - max(0.0, end - begin), whole


def throttling(records: RunRecords) -> dict[str, float] | None:
    """For each reason, the share of the window's samples in which any device was slowed; None where unknown, also of
    one device alone.
    """
    if len(_known(readings(records), "throttle_reasons")) != devices(records):
        return None
    seen = [
        {reason for device in sample.devices for reason in device.throttle_reasons or ()}
        for sample in readings(records)
        if any(device.throttle_reasons is not None for device in sample.devices)
    ]
    if not seen:
        return None
    return {reason: sum(reason in reasons for reasons in seen) / len(seen) for reason in sorted(set().union(*seen))}


def energy(records: RunRecords, window_seconds: float | None) -> Energy | None:
    """Mean power of all devices in the common window x the seconds of the slowest rank's window.

    None unless the readings are of every device, at least three of them in the window and over 90 % of it.
    """
    span = window(records)
    if span is None or window_seconds is None or len(readings(records)) < FEWEST_READINGS:
        return None
    ways: tuple[tuple[Source, list[Curve]], ...]
    ways = (("counter", _counted(records)), ("power readings", _integrated(records)))
    for source, curves in ways:
        watts = [_mean_watts(curve, span) for curve in curves]
        known = [power for power in watts if power is not None]
        if len(known) == devices(records):
            return Energy(joules=sum(known) * window_seconds, watts=sum(known) / len(known), source=source)
    return None


def devices(records: RunRecords) -> int:
    """Devices of the whole run; where ranks share one, it counts once on each node."""
    plan = records.plan
    each = len(plan.probe.devices) if plan.device_share < 1 else plan.layout.devices_per_node
    return plan.layout.nodes * each


def _counted(records: RunRecords) -> list[Curve]:
    """The energy counter of each device, except counters that went back."""
    curves = _curves(records, "energy_joules")
    return [curve for curve in curves if all(before[1] <= after[1] for before, after in pairwise(curve))]


def _integrated(records: RunRecords) -> list[Curve]:
    """Each device's power added up over time, by trapezoids."""
    return [_integral(curve) for curve in _curves(records, "power_watts")]


def _integral(powers: Curve) -> Curve:
    total, curve = 0.0, [(powers[0][0], 0.0)]
    for (before, watts), (at, more) in pairwise(powers):
        total += (at - before) * (watts + more) / 2
        curve.append((at, total))
    return curve


def _curves(records: RunRecords, name: str) -> list[Curve]:
    by_device: dict[int, Curve] = defaultdict(list)
    for sample in sorted(records.samples, key=lambda sample: sample.monotonic):
        for device in sample.devices:
            if (value := getattr(device, name)) is not None:
                by_device[device.index].append((sample.monotonic, value))
    return list(by_device.values())


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
    """Share of the cores that other processes used in the measured window; None with fewer than two samples near it.

    If the samples inside cover less than half of it, the last one before and the first one after it count too.
    """
    if (span := window(records)) is None:
        return None
    begin, end = span
    hosts = [
        (sample.monotonic + sample.query_seconds, sample.host) for sample in records.samples if sample.host is not None
    ]
    inside = [host for host in hosts if begin <= host[0] <= end]
    if not inside or inside[-1][0] - inside[0][0] < (end - begin) / 2:
        before, after = [host for host in hosts if host[0] < begin], [host for host in hosts if host[0] > end]
        inside = before[-1:] + inside + after[:1]
    return other_share(inside)


def other_processes(records: RunRecords) -> int | None:
    """Largest number of processes of others on the devices, in any sample of the window; None if unknown."""
    counts = [sample.host.other_processes for sample in readings(records) if sample.host is not None]
    return max((count for count in counts if count is not None), default=None)
