"""The host CPU as one divisible device: its name, and the cores and memory that this process may use."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from llmperf.types import DeviceInfo, Offers, Probe

if TYPE_CHECKING:
    from llmperf.types import Plan

PROC = Path("/proc")
CGROUP = Path("/sys/fs/cgroup")
OFFERS = Offers(precisions=("fp32", "bf16"), runtimes=("torch", "paddle"), collective_backend="gloo")
"""CPUs have no kernels to train in fp16, and tf32 is a format of GPUs."""


def probe() -> Probe:
    """The host as one device; never fails."""
    details = {"cores": str(usable_cores()), "architecture": platform.machine()}
    with suppress(AttributeError, OSError):  # of its first process: in a container those that the container has
        details["machine_cores"] = str(len(os.sched_getaffinity(1)))
    if (packages := sockets()) is not None:
        details["sockets"] = str(packages)
    device = DeviceInfo(
        index=0, model=cpu_model(), memory_bytes=memory_bytes(), kind="cpu", divisible=True, details=details
    )
    return Probe(vendor="cpu", devices=(device,), offers=OFFERS)


def cpu_model() -> str:
    """The CPU's name as the host shows it, else its architecture."""
    for key in ("model name", "Model", "cpu model"):
        if name := _cpuinfo().get(key):
            return name
    return _sysctl("machdep.cpu.brand_string") or platform.processor() or platform.machine() or "CPU"


def usable_cores() -> int:
    """Logical cores that this process may run on, by its affinity and the control group's quota."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    quota = _quota()
    return cores if quota is None else max(1, min(cores, ceil(quota)))


def threads_of_a_rank(plan: Plan) -> int:
    """A rank's share of the cores of its node, at least 1."""
    details = plan.probe.devices[0].details if plan.probe.devices else {}
    cores = details.get("cores", "")
    return max(
        1, (int(cores) if cores.isdecimal() and len(cores) < 7 else usable_cores()) // plan.layout.devices_per_node
    )


def busy_seconds() -> float | None:
    """Seconds that this process's cores worked for any process since the host started; None if unknown."""
    affinity = getattr(os, "sched_getaffinity", None)
    wanted = {f"cpu{core}" for core in affinity(0)} if affinity else set()
    ticks = [
        sum(map(int, fields[:3])) + sum(map(int, fields[5:8]))  # without idling and waiting for disks
        for name, *fields in map(str.split, read(PROC / "stat").splitlines())
        if name in wanted
    ]
    return sum(ticks) / os.sysconf("SC_CLK_TCK") if ticks else None


def sockets() -> int | None:
    """CPU packages of the host; None if unknown."""
    text = read(PROC / "cpuinfo")
    packages = {line for line in text.splitlines() if line.startswith("physical id")}
    return len(packages) or None


def memory_bytes() -> int | None:
    """Bytes that this process may use: the host's memory, or the control group's limit if that is less."""
    total = meminfo().get("MemTotal")
    if total is None and (text := _sysctl("hw.memsize")).isdigit():
        total = int(text)
    limit = read(CGROUP / "memory.max").strip()
    if limit.isdigit() and total is not None:
        return min(total, int(limit))
    return total


def meminfo() -> dict[str, int]:
    """`/proc/meminfo` in bytes; empty where there is none."""
    amounts = {}
    for line in read(PROC / "meminfo").splitlines():
        name, _, rest = line.partition(":")
        parts = rest.split()
        if len(parts) == 2 and parts[0].isdigit() and parts[1] == "kB":
            amounts[name] = int(parts[0]) * 1024
    return amounts


def _cpuinfo() -> dict[str, str]:
    """The first value of each key of `/proc/cpuinfo`."""
    values: dict[str, str] = {}
    for line in read(PROC / "cpuinfo").splitlines():
        name, colon, value = line.partition(":")
        if colon and value.strip():
            values.setdefault(name.strip(), " ".join(value.split()))
    return values


def _quota() -> float | None:
    """Cores that the control group (v2, else v1) grants by its time quota; None if unlimited."""
    quota, _, period = read(CGROUP / "cpu.max").strip().partition(" ")
    if not period:
        quota = read(CGROUP / "cpu/cpu.cfs_quota_us").strip()
        period = read(CGROUP / "cpu/cpu.cfs_period_us").strip()
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else None


def read(path: Path) -> str:
    """A small file's text; empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _sysctl(name: str) -> str:
    if platform.system() != "Darwin":
        return ""
    import subprocess

    try:
        done = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
