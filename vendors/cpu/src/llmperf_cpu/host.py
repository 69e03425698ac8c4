"""What this host is: its CPU's name, the cores and the memory that this process may use.

Linux is read from `/proc` and the control group; elsewhere what the standard library knows, and macOS'
`sysctl`.
"""

from __future__ import annotations

import os
import platform
import subprocess
from math import ceil
from pathlib import Path

PROC = Path("/proc")
CGROUP = Path("/sys/fs/cgroup")


def cpu_model() -> str:
    """The CPU's name as the host shows it; its architecture where it shows none."""
    for key in ("model name", "Model", "cpu model"):
        if name := _cpuinfo().get(key):
            return name
    return _sysctl("machdep.cpu.brand_string") or platform.processor() or platform.machine() or "CPU"


def usable_cores() -> int:
    """Logical cores this process may run on: its affinity, and the control group's quota if any."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    quota = _quota()
    return cores if quota is None else max(1, min(cores, ceil(quota)))


def busy_seconds() -> float | None:
    """Time that the cores of this process's affinity worked for anybody, since the host started; None if not shown."""
    affinity = getattr(os, "sched_getaffinity", None)
    wanted = {f"cpu{core}" for core in affinity(0)} if affinity else set()
    ticks = [
        sum(map(int, fields[:3])) + sum(map(int, fields[5:8]))  # without idling and waiting for disks
        for name, *fields in map(str.split, read(PROC / "stat").splitlines())
        if name in wanted
    ]
    return sum(ticks) / os.sysconf("SC_CLK_TCK") if ticks else None


def sockets() -> int | None:
    """CPU packages of the host; None where it does not say."""
    text = read(PROC / "cpuinfo")
    packages = {line for line in text.splitlines() if line.startswith("physical id")}
    return len(packages) or None


def memory_bytes() -> int | None:
    """Memory this process may use: the host's, or the control group's limit if that is less."""
    total = meminfo().get("MemTotal")
    if total is None and (text := _sysctl("hw.memsize")).isdigit():
        total = int(text)
    limit = read(CGROUP / "memory.max").strip()
    if limit.isdigit() and total is not None:
        return min(total, int(limit))
    return total


def meminfo() -> dict[str, int]:
    """`/proc/meminfo` in bytes; empty where there is none."""
    found = {}
    for line in read(PROC / "meminfo").splitlines():
        name, _, rest = line.partition(":")
        parts = rest.split()
        if len(parts) == 2 and parts[0].isdigit() and parts[1] == "kB":
            found[name] = int(parts[0]) * 1024
    return found


def _cpuinfo() -> dict[str, str]:
    """The first value of each key of `/proc/cpuinfo`."""
    found: dict[str, str] = {}
    for line in read(PROC / "cpuinfo").splitlines():
        name, colon, value = line.partition(":")
        if colon and value.strip():
            found.setdefault(name.strip(), " ".join(value.split()))
    return found


def _quota() -> float | None:
    """Cores' worth of time that the control group (v2, then v1) grants; None where unlimited."""
    quota, _, period = read(CGROUP / "cpu.max").strip().partition(" ")
    if not period:
        quota = read(CGROUP / "cpu/cpu.cfs_quota_us").strip()
        period = read(CGROUP / "cpu/cpu.cfs_period_us").strip()
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else None


def read(path: Path) -> str:
    """A small file's text; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _sysctl(name: str) -> str:
    if platform.system() != "Darwin":
        return ""
    try:
        done = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
