"""Totals of the readings of a node's devices, computed reading by reading.

Each node has a sampler and a clock of its own: its readings are compared only with the phases of its own ranks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from llmperf.runfolder.host_readings import HostLoad, HostReading
from llmperf.types.devices import DeviceSample
from llmperf.types.hosts import WINDOW_PARTS
from llmperf.types.layout import Layout
from llmperf.types.records import MemorySample, PhaseRecord

Span = tuple[float, float]
"""Begin and end, seconds of the monotonic clock of one node."""
COVERED = 0.9
"""Share of the window that the readings must cover for the energy to be known."""


def measured_windows(phases: Iterable[PhaseRecord], layout: Layout) -> dict[int, Span]:
    """Spans in which every rank of a node was in its measured window, by node."""
    begins: dict[int, list[float]] = defaultdict(list)
    ends: dict[int, list[float]] = defaultdict(list)
    for phase in phases:
        node = layout.node_of(phase.rank)
        if phase.phase == "measuring":
            begins[node].append(phase.monotonic)
        elif phase.phase in ("evaluating", "done"):
            ends[node].append(phase.monotonic)
    spans = {node: (max(begins[node]), min(ends[node])) for node in sorted(begins) if node in ends}
    return {node: span for node, span in spans.items() if span[0] < span[1]}


class Mean:
    """The mean of values that come one by one."""

    __slots__ = ("count", "value")

    def __init__(self) -> None:
        self.count = 0
        self.value = 0.0

    def add(self, value: float) -> None:
        """Add a value."""
        self.count += 1
        self.value += value / self.count - self.value / self.count  # two divisions: their difference stays finite


class Drawn:
    """Energy drawn until the edges of the window: points of a rising curve, in the order of time."""

    __slots__ = ("_begin", "_first", "_last", "_span", "at_begin", "at_end", "rising")

    def __init__(self, span: Span) -> None:
        self._span = span
        self._begin = span[0]
        self._first: float | None = None
        self._last = (0.0, 0.0)
        self.at_begin: float | None = None
        self.at_end: float | None = None
        self.rising = True
        """Whether no value was below the one before."""

    def add(self, at: float, joules: float) -> None:
        """Add the energy drawn until a time."""
        if self._first is None:
            self._first, self._begin = at, max(self._span[0], at)
        else:
            self.rising = self.rising and joules >= self._last[1]
            if self.at_begin is None and at > self._begin:
                self.at_begin = self._between(at, joules, self._begin)
            if self.at_end is None and at > self._span[1]:
                self.at_end = self._between(at, joules, self._span[1])
        self._last = at, joules

    def _between(self, at: float, joules: float, wanted: float) -> float:
        """Joules on the straight line between the last reading and this one."""
        before, low = self._last
        return low if at == before else low + (joules - low) * (wanted - before) / (at - before)

    def watts(self) -> float | None:
        """Mean power in the window; None unless the readings cover it."""
        if self._first is None or self.at_begin is None:
            return None
        at_end, end = (self._last[1], self._last[0]) if self.at_end is None else (self.at_end, self._span[1])
        if end - self._begin < COVERED * (self._span[1] - self._span[0]):
            return None
        return (at_end - self.at_begin) / (end - self._begin)


class DeviceReadings:
    """The readings of one device."""

    __slots__ = (
        *("counted", "first", "integral", "joules", "last", "power", "power_watts", "throttle_known"),
        *("memory_total_bytes", "memory_used_bytes", "utilisation_percent"),
    )

    def __init__(self, span: Span) -> None:
        self.memory_used_bytes: int | None = None
        """Most in the whole run."""
        self.memory_total_bytes: int | None = None
        self.first: float | None = None
        """When its memory or its power was first known."""
        self.last = 0.0
        self.utilisation_percent = Mean()
        """In the window, as the following."""
        self.power_watts = Mean()
        self.throttle_known = False
        self.counted = Drawn(span)
        """By its counter of energy."""
        self.integral = Drawn(span)
        """By its power, added up over time by trapezoids."""
        self.power: tuple[float, float] | None = None
        self.joules = 0.0

    def add(self, at: float, sample: DeviceSample, inside: bool) -> None:
        """Add a reading; `inside` the window or not."""
        self.memory_used_bytes = _larger(self.memory_used_bytes, sample.memory_used_bytes)
        self.memory_total_bytes = _larger(self.memory_total_bytes, sample.memory_total_bytes)
        if sample.memory_used_bytes is not None or sample.power_watts is not None:
            self.first, self.last = at if self.first is None else self.first, at
        if sample.energy_joules is not None:
            self.counted.add(at, sample.energy_joules)
        if sample.power_watts is not None:
            if self.power is not None:
                before, watts = self.power
                self.joules += (at - before) * (watts + sample.power_watts) / 2
            self.power = at, sample.power_watts
            self.integral.add(at, self.joules)
        if inside:
            self.throttle_known = self.throttle_known or sample.throttle_reasons is not None
            if sample.utilisation_percent is not None:
                self.utilisation_percent.add(sample.utilisation_percent)
            if sample.power_watts is not None:
                self.power_watts.add(sample.power_watts)


def _larger(known: int | None, value: int | None) -> int | None:
    if known is None or value is None:
        return value if known is None else known
    return max(known, value)


class NodeReadings:
    """The readings of one node, in the order of time."""

    def __init__(self, span: Span | None) -> None:
        self.span = span
        """The measured window; None if there was none."""
        self.devices: dict[int, DeviceReadings] = {}
        """By index."""
        self.inside = 0
        """Readings in the window."""
        self.throttle_known = 0
        """Of these, those in which any device showed whether it was slowed."""
        self.throttled: Counter[str] = Counter()
        """Of these, those in which any device was slowed, by reason."""
        self.other_processes: int | None = None
        """Most in the window."""
        self._clocks = [Mean() for _ in range(WINDOW_PARTS)]
        self._known_in_part: Counter[int] = Counter()
        self._throttled_in_part: Counter[tuple[str, int]] = Counter()
        self._load, self._wide = HostLoad(), HostLoad()
        self._before: HostReading | None = None
        self._after = False

    def add(self, sample: MemorySample) -> None:
        """Add the next reading."""
        span = self.span or (float("inf"), float("inf"))
        inside = span[0] <= sample.monotonic <= span[1]
        for device in sample.devices:
            if device.index not in self.devices:
                self.devices[device.index] = DeviceReadings(span)
            self.devices[device.index].add(sample.monotonic, device, inside)
        if inside:
            self.inside += 1
            known = [device.throttle_reasons for device in sample.devices if device.throttle_reasons is not None]
            self.throttle_known += bool(known)
            reasons = {reason for reasons in known for reason in reasons}
            self.throttled.update(reasons)
            part = min(WINDOW_PARTS - 1, int(WINDOW_PARTS * (sample.monotonic - span[0]) / (span[1] - span[0])))
            for device in sample.devices:
                if device.clock_hertz is not None:
                    self._clocks[part].add(device.clock_hertz)
            self._known_in_part[part] += bool(known)
            self._throttled_in_part.update((reason, part) for reason in reasons)
        if sample.host is not None:
            self._add_host(HostReading(sample.monotonic + sample.query_seconds, sample.host), span)
            if inside:
                self.other_processes = _larger(self.other_processes, sample.host.other_processes)

    def _add_host(self, reading: HostReading, span: Span) -> None:
        if reading.at < span[0]:
            self._before = reading
            return
        if reading.at <= span[1]:
            self._load.add(reading)
        if self._wide.first is None and self._before is not None:
            self._wide.add(self._before)
        if reading.at <= span[1] or not self._after:
            self._wide.add(reading)
        self._after = self._after or reading.at > span[1]

    @property
    def load(self) -> HostLoad:
        """Load by others on the host in the window.

        If the readings inside cover less than half of it, the last one before and the first one after it count too.
        """
        if self.span is None:
            return HostLoad()
        narrow = self._load.seconds < (self.span[1] - self.span[0]) / 2
        return self._wide if self._load.first is None or narrow else self._load

    @property
    def other_cpu_share(self) -> float | None:
        """Share of the cores that other processes used in the window."""
        return self.load.share

    @property
    def clock_over_time(self) -> tuple[float | None, ...]:
        """Mean clock of the devices in each part of the window, in hertz; empty if no device shows it."""
        clocks = tuple(mean.value if mean.count else None for mean in self._clocks)
        return clocks if any(clock is not None for clock in clocks) else ()

    @property
    def throttling_over_time(self) -> dict[str, tuple[float | None, ...]]:
        """Share of the readings in each part of the window in which any device was slowed, by reason."""
        known, parts = self._known_in_part, range(WINDOW_PARTS)
        return {
            reason: tuple(
                self._throttled_in_part[reason, part] / known[part] if known[part] else None for part in parts
            )
            for reason in sorted(self.throttled)
        }
