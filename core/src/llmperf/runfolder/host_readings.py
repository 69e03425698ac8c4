"""The load that others put on a host: readings added up interval by interval, and words for a host that is busy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from llmperf.files.text import printable
from llmperf.types.hosts import FAULTS, MAX_PROGRAMS, BusyProgram, LoadBefore, Resource
from llmperf.types.result import MEMORY_PRESSURE, OTHER_CPU_SHARE
from llmperf.types.texts import Text

if TYPE_CHECKING:
    from llmperf.types.records import HostSample

MAX_NAMES = 1000
"""Names of programs that are kept of a run."""
LEAST_SHARE = 0.01
"""Share of the cores from which a program is listed."""
MAX_NAME = 15
"""Characters that the kernel keeps of a name."""


class HostReading(NamedTuple):
    """One reading of a host, and when it was taken."""

    at: float
    host: HostSample


class HostLoad:
    """Activity on a host between two readings."""

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
        if self.last is None:
            self.first = reading
        else:
            self._add_interval(self.last, reading)
        self.last = reading
        available = reading.host.memory_available_bytes
        if available is not None:
            self.least_memory_available_bytes = min(available, self.least_memory_available_bytes or available)

    def _add_interval(self, earlier: HostReading, later: HostReading) -> None:
        seconds = later.at - earlier.at
        if seconds <= 0:
            return
        stalled = _stalled(earlier, later, "memory")
        if stalled is not None:
            self.most_memory_pressure = max(stalled / seconds, self.most_memory_pressure or 0.0)
        before, after = earlier.host, later.host
        own = after.own_seconds - before.own_seconds
        if before.cores != after.cores or own < 0:  # a counter of our own processes went back, as one was lost
            return
        used, available = after.busy_seconds - before.busy_seconds - own, seconds * after.cores
        self._used, self._available = self._used + used, self._available + available
        self.most_share = max(_share(used, available), self.most_share or 0.0)
        for name, cpu_seconds in after.programs.items():
            if name in self._programs or len(self._programs) < MAX_NAMES:
                self._programs[name] = self._programs.get(name, 0.0) + cpu_seconds

    @property
    def share(self) -> float | None:
        """Share of the cores that others used; None if unknown."""
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
        if self.first is None or self.last is None or self.seconds <= 0:
            return {}
        known = {name: _stalled(self.first, self.last, name) for name in self.first.host.stalled_seconds}
        return {name: min(1.0, stalled / self.seconds) for name, stalled in known.items() if stalled is not None}

    @property
    def swapped_bytes(self) -> int | None:
        """Traffic to and from swap space; None if unknown."""
        if self.first is None or self.last is None or self.seconds <= 0:
            return None
        before, after = self.first.host.swapped_bytes, self.last.host.swapped_bytes
        return None if before is None or after is None else max(0, after - before)


def _share(used: float, available: float) -> float:
    return min(1.0, max(0.0, used / available))


def _stalled(earlier: HostReading, later: HostReading, resource: Resource) -> float | None:
    before, after = earlier.host.stalled_seconds.get(resource), later.host.stalled_seconds.get(resource)
    return None if before is None or after is None else max(0.0, after - before)


BUSY_UTILISATION_PERCENT = 20.0
"""Utilisation above which a device without a list of processes is busy. A desktop takes a few percent."""
LEAST_MEMORY_SHARE = 0.05
"""Share of the host's memory that must be available; below it, a new process is likely to make the kernel swap."""
SWAPPED_BYTES_PER_SECOND = 10 * 2**20
"""A host that swaps for want of memory moves hundreds of MiB a second; single pages come back at any time."""
GIB = 2**30


def busy_text(load: LoadBefore) -> str | None:
    """`the machine is busy: other processes use 45 % of the cores (cc1plus 30 %)`; None if it is idle."""
    parts = list(busy_parts(load))
    return Text("the machine is busy: {}", Text.joined(", ", parts)) if parts else None


def busy_parts(load: LoadBefore) -> Iterator[str]:
    """Words for each thing that would disturb a run; none on an idle machine. Unknown figures count as idle."""
    share, pressure = load.other_cpu_share, load.pressure.get("memory", 0.0)
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
        yield Text("only {:.1f} of {:.1f} GiB of memory are free", available / GIB, total / GIB)
    if pressure > MEMORY_PRESSURE:
        yield Text("processes wait for memory {:.0f} % of the time", 100 * pressure)
    if (load.swapped_bytes_per_second or 0.0) > SWAPPED_BYTES_PER_SECOND:
        yield Text("the host swaps {:.0f} MiB a second", load.swapped_bytes_per_second / 2**20)  # type: ignore[operator]


def programs_text(programs: Iterable[BusyProgram]) -> str:
    """` (cc1plus 30 %, python3 12 %)`; empty if the programs are not known."""
    shares = ", ".join(f"{printable(program.name)} {100 * program.cpu_share:.0f} %" for program in programs)
    return Text(" ({})", shares) if shares else ""
