"""Readings of the host: memory, utilisation, power and temperature; None for figures that it does not show."""

from __future__ import annotations

import os
import time
from pathlib import Path

from llmperf.types import DeviceSample

from llmperf_cpu import host

POWERCAP = Path("/sys/class/powercap")
HWMON = Path("/sys/class/hwmon")
CPU_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")


class HostSampler:
    """Keeps the counters of the previous reading, since utilisation and power are differences of counters."""

    def __init__(self) -> None:
        self._ticks = _cpu_ticks()
        self._joules = _package_joules()
        self._joules_at = time.monotonic()

    def sample(self, index: int) -> DeviceSample:
        """A reading; utilisation and power are those since the previous reading."""
        memory = host.meminfo()
        total, available = memory.get("MemTotal"), memory.get("MemAvailable")
        # of the CPU's own sensors
        readings = [
            int(text) / 1000
            for sensor in HWMON.glob("hwmon*")
            if host.read(sensor / "name").strip() in CPU_SENSORS
            for reading in sensor.glob("temp*_input")
            if (text := host.read(reading).strip()).lstrip("-").isdigit()
        ]
        return DeviceSample(
            index=index,
            memory_used_bytes=None if total is None or available is None else max(0, total - available),
            memory_total_bytes=total,
            utilisation_percent=self._utilisation(),
            power_watts=self._power(),
            temperature_celsius=max(readings, default=None),
            energy_joules=self._joules,
        )

    def _utilisation(self) -> float | None:
        now, before = _cpu_ticks(), self._ticks
        self._ticks = now
        if now is None or before is None or now[1] <= before[1]:
            return None
        return min(100.0, max(0.0, 100 * (now[0] - before[0]) / (now[1] - before[1])))

    def _power(self) -> float | None:
        now, at = _package_joules(), time.monotonic()
        before, seconds = self._joules, at - self._joules_at
        self._joules, self._joules_at = now, at
        if now is None or before is None or now < before or seconds <= 0:  # the counter wraps every few minutes
            return None
        return (now - before) / seconds


def _cpu_ticks() -> tuple[int, int] | None:
    """Busy and all clock ticks of the cores this process may use, since the host started."""
    affinity = getattr(os, "sched_getaffinity", None)
    if affinity is None:
        return None
    wanted = {f"cpu{core}" for core in affinity(0)}
    busy = everything = 0
    for name, *fields in map(str.split, host.read(host.PROC / "stat").splitlines()):
        if name in wanted:
            ticks = [int(field) for field in fields[:8]]  # guest time is within user time
            everything += sum(ticks)
            busy += sum(ticks) - ticks[3] - ticks[4]  # idle, waiting for input and output
    return (busy, everything) if everything else None


def _package_joules() -> float | None:
    """Energy of all CPU packages (RAPL); None if there are no counters or only the administrator may read them."""
    counters = [
        host.read(path / "energy_uj").strip()
        for path in POWERCAP.glob("intel-rapl:*")
        if path.name.count(":") == 1 and host.read(path / "name").startswith("package")
    ]
    if not counters or not all(text.isdigit() for text in counters):
        return None
    return sum(int(text) for text in counters) / 1e6


_samplers: list[HostSampler] = []


def sample(index: int) -> DeviceSample:
    """A reading by the process's sampler; the first has neither utilisation nor power."""
    if not _samplers:
        _samplers.append(HostSampler())
    return _samplers[0].sample(index)
