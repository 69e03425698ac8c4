"""The load that other processes put on this host, read from /proc."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from pathlib import Path

from llmperf.measuring.processes import Process, counters, own_pids, processes_here
from llmperf.types.devices import DeviceSample
from llmperf.types.hosts import MAX_PROGRAMS, Resource
from llmperf.types.records import HostSample

INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO of the kernel: in this namespace, process ids are those that a driver lists."""
RESOURCES: tuple[Resource, ...] = ("cpu", "memory", "io")
KIB = 1024


class HostMeter:
    """Reads the host again and again; what programs used counts from one reading to the next."""

    def __init__(self) -> None:
        self._before: dict[tuple[int, int], int] | None = None

    def read(self, devices: Iterable[DeviceSample] = ()) -> HostSample | None:
        """The counters of this host and of this process's own processes; None where the system does not show them."""
        try:
            cores, per_second = os.sched_getaffinity(0), os.sysconf("SC_CLK_TCK")
            processes = processes_here()
            own = own_pids(processes, os.getpid())
            available_kib = counters(Path("/proc/meminfo")).get("MemAvailable")
            return HostSample(
                cores=len(cores),
                busy_seconds=busy_ticks(Path("/proc/stat").read_text(), cores) / per_second,
                own_seconds=own_ticks(processes, own) / per_second,
                other_processes=others(devices, own),
                programs={name: ticks / per_second for name, ticks in self._programs(processes, own, cores)},
                stalled_seconds=stalled_seconds(),
                memory_available_bytes=None if available_kib is None else available_kib * KIB,
                swapped_bytes=swapped_bytes(),
            )
        except (AttributeError, OSError, ValueError, IndexError):
            return None

    def _programs(
        self, processes: Mapping[int, Process], own: frozenset[int], cores: Set[int]
    ) -> list[tuple[str, int]]:
        """The programs of others that used most CPU time on these cores since the reading before; none at first."""
        before = self._before
        self._before = {(pid, process.start): process.ticks for pid, process in processes.items()}
        used: Counter[str] = Counter()
        if before is not None:
            for pid, process in processes.items():
                if pid not in own and process.core in cores:
                    used[process.name] += process.ticks - before.get((pid, process.start), 0)
        return [(name, ticks) for name, ticks in used.most_common(MAX_PROGRAMS) if ticks > 0]


def busy_ticks(stat: str, cores: Iterable[int]) -> int:
    """Ticks from the text of /proc/stat in which these cores were neither idle nor waiting for disks.

    Time that a hypervisor took counts as busy.
    """
    wanted = {f"cpu{core}" for core in cores}
    lines = (line.split() for line in stat.splitlines() if line.startswith("cpu"))
    counters = [[int(field) for field in fields[1:9]] for fields in lines if fields[0] in wanted]
    return sum(sum(core) - core[3] - core[4] for core in counters)  # without idle and iowait


def own_ticks(processes: Mapping[int, Process], own: Iterable[int]) -> int:
    """CPU time of a process and its descendants. A process that ends meanwhile counts if its parent waited for it."""
    mine = (processes[pid] for pid in own if pid in processes)
    return sum(process.ticks + process.waited_ticks for process in mine)


def others(devices: Iterable[DeviceSample], own: frozenset[int]) -> int | None:
    """Number of processes on the devices that are not our own; None if no device lists processes, or by other ids."""
    running = on_devices(devices)
    if running is None or (running and not sees_driver_ids()):
        return None
    return len(running - own)


def on_devices(devices: Iterable[DeviceSample]) -> frozenset[int] | None:
    """The processes on the devices, by the ids of the driver; None if no device lists any."""
    listed = [device.process_ids for device in devices if device.process_ids is not None]
    return frozenset(pid for pids in listed for pid in pids) if listed else None


def sees_driver_ids() -> bool:
    """Check whether process ids here are those that a driver lists: not in a container with ids of its own."""
    return os.readlink("/proc/self/ns/pid") == INITIAL_PID_NAMESPACE


def names_of(pids: Iterable[int]) -> tuple[str, ...]:
    """The names of processes, each once, in order; without those that this process cannot see."""
    names = set()
    with suppress(OSError):
        for pid in pids if sees_driver_ids() else ():
            with suppress(OSError):
                names.add(Path(f"/proc/{pid}/comm").read_text(errors="replace").strip())
    return tuple(sorted(names)[:MAX_PROGRAMS])


def stalled_seconds() -> dict[Resource, float]:
    """Time since the system started in which some task waited for a resource; {} where the kernel does not count it.

    The lines are `some avg10=0.00 avg60=0.00 avg300=0.00 total=1234`, the total in microseconds.
    """
    seconds: dict[Resource, float] = {}
    for resource in RESOURCES:
        with suppress(OSError, ValueError, IndexError):
            line = Path(f"/proc/pressure/{resource}").read_text().splitlines()[0]
            seconds[resource] = int(line.rpartition("total=")[2]) / 1e6
    return seconds


def swapped_bytes() -> int | None:
    """Traffic to and from swap space since the system was started; None if unknown."""
    pages = counters(Path("/proc/vmstat"))
    if "pswpin" not in pages or "pswpout" not in pages:
        return None
    return (pages["pswpin"] + pages["pswpout"]) * os.sysconf("SC_PAGE_SIZE")


def load_average() -> float | None:
    """Tasks that run or wait, mean of the last minute; None if unknown."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None


def memory_total_bytes() -> int | None:
    """Memory of this host; None if unknown."""
    total_kib = counters(Path("/proc/meminfo")).get("MemTotal")
    return None if total_kib is None else total_kib * KIB
