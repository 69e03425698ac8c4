"""Readings of the devices and the host of a node, by its own clock, added up; and words for a host that is busy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from llmperf.files.text import printable
from llmperf.types.hosts import FAULTS, MAX_PROGRAMS, WINDOW_PARTS, BusyProgram, LoadBefore, Resource
from llmperf.types.result import MEMORY_PRESSURE, OTHER_CPU_SHARE
from llmperf.types.texts import Text

if TYPE_CHECKING:
    from llmperf.runfolder.totals import Span
    from llmperf.types.devices import DeviceSample
    from llmperf.types.records import HostSample, MemorySample


class HostReading(NamedTuple):
    """One reading of a host, and when it was taken."""

    at: float
    host: HostSample


COVERED = 0.9
"""Share of the window that the readings must cover for the energy to be known."""


class Mean:
    """The mean of values that come one by one."""

    count, value = 0, 0.0

    def add(self, value: float) -> None:
        """Add a value."""
        self.count += 1
        self.value += value / self.count - self.value / self.count  # two divisions: their difference stays finite


class Drawn:
    """Energy drawn until the edges of the window: points of a rising curve, in the order of time."""

    def __init__(self, span: Span) -> None:
        self._begin, self._end = span
        self._length = span[1] - span[0]
        self._last: tuple[float, float] | None = None
        self.at_begin: float | None = None
        self.at_end: float | None = None
        self.rising = True
        """No value was below the one before."""

    def add(self, at: float, joules: float) -> None:
        """Add the energy drawn until a time."""
        if self._last is None:
            self._begin = max(self._begin, at)
        else:
            self.rising = self.rising and joules >= self._last[1]
            if self.at_begin is None and at > self._begin:
                self.at_begin = _between(*self._last, at, joules, self._begin)
            if self.at_end is None and at > self._end:
                self.at_end = _between(*self._last, at, joules, self._end)
        self._last = at, joules

    def watts(self) -> float | None:
        """Mean power in the window; None unless the readings cover it."""
        if self._last is None or self.at_begin is None:
            return None
        end, at_end = self._last if self.at_end is None else (self._end, self.at_end)
        return (at_end - self.at_begin) / (end - self._begin) if end - self._begin >= COVERED * self._length else None


def _between(before: float, low: float, at: float, joules: float, wanted: float) -> float:
    """Joules on the straight line between two readings."""
    return low if at == before else low + (joules - low) * (wanted - before) / (at - before)


class DeviceReadings:
    """The readings of one device."""

    def __init__(self, span: Span) -> None:
        self.memory_used_bytes: int | None = None
        """Most in the whole run."""
        self.memory_total_bytes: int | None = None
        self.first: float | None = None
        """When its memory or its power was first known."""
        self.last = 0.0
        self.utilisation_percent, self.power_watts = Mean(), Mean()
        """In the window."""
        self.throttle_known = False
        self.counted = Drawn(span)
        """By its counter of energy."""
        self.integral = Drawn(span)
        """By its power, added up over time by trapezoids."""
        self._power: tuple[float, float] | None = None
        self._joules = 0.0

    def add(self, at: float, sample: DeviceSample, inside: bool) -> None:
        """Add a reading; `inside` the window or not."""
        self.memory_used_bytes = _larger(self.memory_used_bytes, sample.memory_used_bytes)
        self.memory_total_bytes = _larger(self.memory_total_bytes, sample.memory_total_bytes)
        if sample.memory_used_bytes is not None or sample.power_watts is not None:
            self.first, self.last = at if self.first is None else self.first, at
        if sample.energy_joules is not None:
            self.counted.add(at, sample.energy_joules)
        if sample.power_watts is not None:
            if self._power is not None:
                before, watts = self._power
                self._joules += (at - before) * (watts + sample.power_watts) / 2
            self._power = at, sample.power_watts
            self.integral.add(at, self._joules)
        if inside:
            self.throttle_known = self.throttle_known or sample.throttle_reasons is not None
            if sample.utilisation_percent is not None:
                self.utilisation_percent.add(sample.utilisation_percent)
            if sample.power_watts is not None:
                self.power_watts.add(sample.power_watts)


def _larger(known: int | None, value: int | None) -> int | None:
    return max((size for size in (known, value) if size is not None), default=None)


class NodeReadings:
    """The readings of one node, in the order of time."""

    def __init__(self, span: Span | None) -> None:
        self.span = span or (float("inf"), float("inf"))
        """The measured window; infinite if there was none."""
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
        self._clocks, self._known_in_part = [Mean() for _ in range(WINDOW_PARTS)], Counter[int]()
        self._throttled_in_part: Counter[tuple[str, int]] = Counter()
        self._load, self._wide = HostLoad(), HostLoad()
        self._before: HostReading | None = None
        self._after = False

    def add(self, sample: MemorySample) -> None:
        """Add the next reading."""
        begin, end = self.span
        inside = begin <= sample.monotonic <= end
        for device in sample.devices:
            if device.index not in self.devices:
                self.devices[device.index] = DeviceReadings(self.span)
            self.devices[device.index].add(sample.monotonic, device, inside)
        if inside:
            self.inside += 1
            known = [device.throttle_reasons for device in sample.devices if device.throttle_reasons is not None]
            self.throttle_known += bool(known)
            reasons = {reason for reasons in known for reason in reasons}
            self.throttled.update(reasons)
            part = min(WINDOW_PARTS - 1, int(WINDOW_PARTS * (sample.monotonic - begin) / (end - begin)))
            for device in sample.devices:
                if device.clock_hertz is not None:
                    self._clocks[part].add(device.clock_hertz)
            self._known_in_part[part] += bool(known)
            self._throttled_in_part.update((reason, part) for reason in reasons)
        if sample.host is None:
            return
        if inside:
            self.other_processes = _larger(self.other_processes, sample.host.other_processes)
        reading = HostReading(sample.monotonic + sample.query_seconds, sample.host)
        if reading.at < begin:
            self._before = reading
            return
        if reading.at <= end:
            self._load.add(reading)
        if self._wide.first is None and self._before is not None:
            self._wide.add(self._before)
        if not self._after:
            self._wide.add(reading)
        self._after = reading.at > end

    @property
    def load(self) -> HostLoad:
        """Load by others on the host in the window; readings next to it count if it has few of its own."""
        narrow = self._load.first is None or self._load.seconds < (self.span[1] - self.span[0]) / 2
        return self._wide if narrow else self._load

    @property
    def clock_over_time(self) -> tuple[float | None, ...]:
        """Mean clock of the devices in each part of the window, in hertz; empty if no device shows it."""
        known = any(mean.count for mean in self._clocks)
        return tuple(mean.value if mean.count else None for mean in self._clocks) if known else ()

    @property
    def throttling_over_time(self) -> dict[str, tuple[float | None, ...]]:
        """Share of the readings in each part of the window in which any device was slowed, by reason."""
        known, slowed = self._known_in_part, self._throttled_in_part
        return {
            reason: tuple(slowed[reason, part] / known[part] if known[part] else None for part in range(WINDOW_PARTS))
            for reason in sorted(self.throttled)
        }


def node_readings(samples: Iterable[MemorySample], windows: Mapping[int, Span]) -> dict[int, NodeReadings]:
    """The readings of each node, added up over the measured `windows` of the nodes."""
    readings: dict[int, NodeReadings] = {}
    for sample in samples:
        node = sample.node_rank
        if node not in readings:
            readings[node] = NodeReadings(windows.get(node))
        readings[node].add(sample)
    return readings


MAX_NAMES = 1000
"""Names of programs that are kept of a run."""
LEAST_SHARE = 0.01
"""Share of the cores from which a program is listed."""
MAX_NAME = 15
"""Characters that the kernel keeps of a name."""


class HostLoad:
    """Activity on a host between readings. A figure is None, or left out, where the readings do not show it."""

    def __init__(self) -> None:
        self.first: HostReading | None = None
        self.last: HostReading | None = None
        self.most_share: float | None = None
        """The largest share of the cores that others used between two readings."""
        self.most_memory_pressure: float | None = None
        """The largest share of the time between two readings in which some task waited for memory."""
        self.least_memory_available_bytes: int | None = None
        self._used = self._available = 0.0
        self._programs: dict[str, float] = {}

    def add(self, reading: HostReading) -> None:
        """Add the next reading."""
        earlier, self.last = self.last, reading
        if (available := reading.host.memory_available_bytes) is not None:
            self.least_memory_available_bytes = min(available, self.least_memory_available_bytes or available)
        if earlier is None:
            self.first = reading
            return
        before, after, seconds = earlier.host, reading.host, reading.at - earlier.at
        if seconds <= 0:
            return
        if (stalled := _stalled(before, after).get("memory")) is not None:
            self.most_memory_pressure = max(stalled / seconds, self.most_memory_pressure or 0.0)
        own = after.own_seconds - before.own_seconds
        if before.cores != after.cores or own < 0:  # a counter of our own processes went back, as one was lost
            return
        used, available_seconds = after.busy_seconds - before.busy_seconds - own, seconds * after.cores
        self._used, self._available = self._used + used, self._available + available_seconds
        self.most_share = max(_share(used, available_seconds), self.most_share or 0.0)
        for name, cpu_seconds in after.programs.items():
            if name in self._programs or len(self._programs) < MAX_NAMES:
                self._programs[name] = self._programs.get(name, 0.0) + cpu_seconds

    @property
    def share(self) -> float | None:
        """Share of the cores that others used."""
        return _share(self._used, self._available) if self._available else None

    @property
    def seconds(self) -> float:
        """Time between the first and the last reading."""
        return self.last.at - self.first.at if self.first is not None and self.last is not None else 0.0

    @property
    def programs(self) -> tuple[BusyProgram, ...]:
        """The programs of others that used at least a hundredth of the cores, largest first."""
        largest = sorted(self._programs.items(), key=lambda program: -program[1])[:MAX_PROGRAMS]
        shares = ((name[:MAX_NAME], _share(used, self._available)) for name, used in largest if self._available)
        return tuple(BusyProgram(name=name, cpu_share=share) for name, share in shares if share >= LEAST_SHARE)

    @property
    def pressure(self) -> dict[Resource, float]:
        """Share of the time in which some task waited for a resource, by resource."""
        stalled = _stalled(self.first.host, self.last.host) if self.first and self.last and self.seconds > 0 else {}
        return {name: min(1.0, seconds / self.seconds) for name, seconds in stalled.items()}

    @property
    def swapped_bytes(self) -> int | None:
        """Traffic to and from swap space."""
        if self.first is None or self.last is None or self.seconds <= 0:
            return None
        before, after = self.first.host.swapped_bytes, self.last.host.swapped_bytes
        return max(0, after - before) if before is not None and after is not None else None


def _share(used: float, available: float) -> float:
    return min(1.0, max(0.0, used / available))


def _stalled(before: HostSample, after: HostSample) -> dict[Resource, float]:
    known = before.stalled_seconds.items()
    return {name: max(0.0, after.stalled_seconds[name] - at) for name, at in known if name in after.stalled_seconds}


BUSY_UTILISATION_PERCENT = 20.0
"""Utilisation above which a device without a list of processes is busy. A desktop takes a few percent."""
LEAST_MEMORY_SHARE = 0.05
"""Share of the host's memory that must be available; below it, a new process is likely to make the kernel swap."""
SWAPPED_BYTES_PER_SECOND = 10 * 2**20
"""A host that swaps for want of memory moves hundreds of MiB a second; single pages come back at any time."""


def busy_text(load: LoadBefore) -> str | None:
    """`the machine is busy: other processes use 45 % of the cores (cc1plus 30 %)`; None if it is idle."""
    parts = list(busy_parts(load))
    return Text("the machine is busy: {}", Text.joined(", ", parts)) if parts else None


def busy_parts(load: LoadBefore) -> Iterator[str]:
    """Words for each thing that would disturb a run; none on an idle machine. Unknown figures count as idle."""
    share, pressure, swapped = load.other_cpu_share, load.pressure.get("memory", 0.0), load.swapped_bytes_per_second
    if share is not None and share > OTHER_CPU_SHARE:
        yield Text("other processes use {:.0f} % of the cores{}", 100 * share, programs_text(load.programs))
    if load.other_processes:
        names = Text(" ({})", printable(", ".join(load.device_programs))) if load.device_programs else ""
        yield Text("other processes compute on the devices: {}{}", load.other_processes, names)
    elif load.other_processes is None and (load.utilisation_percent or 0.0) > BUSY_UTILISATION_PERCENT:
        yield Text("a device is in use ({:.0f} %)", load.utilisation_percent)
    if reasons := [reason for reason in load.throttle_reasons or () if reason in FAULTS]:
        yield Text("a device is slowed by {}", ", ".join(reasons))
    total, available = load.memory_total_bytes, load.memory_available_bytes
    if total and available is not None and available < LEAST_MEMORY_SHARE * total:
        yield Text("only {:.1f} of {:.1f} GiB of memory are free", available / 2**30, total / 2**30)
    if pressure > MEMORY_PRESSURE:
        yield Text("processes wait for memory {:.0f} % of the time", 100 * pressure)
    if swapped is not None and swapped > SWAPPED_BYTES_PER_SECOND:
        yield Text("the host swaps {:.0f} MiB a second", swapped / 2**20)


def programs_text(programs: Iterable[BusyProgram]) -> str:
    """` (cc1plus 30 %, python3 12 %)`; empty if the programs are not known."""
    shares = ", ".join(f"{printable(program.name)} {100 * program.cpu_share:.0f} %" for program in programs)
    return Text(" ({})", shares) if shares else ""
