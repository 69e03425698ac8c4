"""What the readings of a host add up to, interval by interval."""

from __future__ import annotations

from typing import NamedTuple

from llmperf.types.host_load import MAX_PROGRAMS, BusyProgram, Resource
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
    """What went on between the readings of a host."""

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
        """To and from swap space; None if unknown."""
        if self.first is None or self.last is None or self.seconds <= 0:
            return None
        before, after = self.first.host.swapped_bytes, self.last.host.swapped_bytes
        return None if before is None or after is None else max(0, after - before)


def _share(used: float, available: float) -> float:
    return min(1.0, max(0.0, used / available))


def _stalled(earlier: HostReading, later: HostReading, resource: Resource) -> float | None:
    before, after = earlier.host.stalled_seconds.get(resource), later.host.stalled_seconds.get(resource)
    return None if before is None or after is None else max(0.0, after - before)
