"""The load that other processes put on this host during a run, read from /proc."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from llmperf.runfolder.node_readings import HostLoad, HostReading
from llmperf.types.devices import DeviceSample
from llmperf.types.records import HostSample

INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO of the kernel: in this namespace, process ids are those that a driver lists."""


class OwnProcesses(NamedTuple):
    """This process and all its descendants."""

    pids: frozenset[int]
    ticks: int
    """CPU time of all of them, including those that have ended and were waited for."""


def host_sample(devices: Iterable[DeviceSample] = ()) -> HostSample | None:
    """The CPU counters of this host and of this process's own processes; None where the system does not show them."""
    try:
        cores, per_second = os.sched_getaffinity(0), os.sysconf("SC_CLK_TCK")
        own = own_processes(os.getpid())
        return HostSample(
            cores=len(cores),
            busy_seconds=busy_ticks(Path("/proc/stat").read_text(), cores) / per_second,
            own_seconds=own.ticks / per_second,
            other_processes=others(devices, own.pids),
        )
    except (AttributeError, OSError, ValueError, IndexError):
        return None


def busy_ticks(stat: str, cores: Iterable[int]) -> int:
    """From the text of /proc/stat: the time in which these cores were neither idle nor waiting for disks.

    Time that a hypervisor took counts as busy.
    """
    wanted = {f"cpu{core}" for core in cores}
    lines = (line.split() for line in stat.splitlines() if line.startswith("cpu"))
    counters = [[int(field) for field in fields[1:9]] for fields in lines if fields[0] in wanted]
    return sum(sum(core) - core[3] - core[4] for core in counters)  # without idle and iowait


def own_processes(root: int) -> OwnProcesses:
    """A process and its descendants. A process that ends meanwhile counts if its parent has waited for it."""
    ticks, children = {}, defaultdict(list)
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:  # it has just ended
            continue
        ticks[int(entry)] = sum(map(int, fields[11:15]))  # utime, stime and those of waited-for children
        children[int(fields[1])].append(int(entry))
    pids, pending = set(), [root]
    while pending:
        pid = pending.pop()
        pids.add(pid)
        pending += children[pid]
    return OwnProcesses(frozenset(pids), sum(ticks.get(pid, 0) for pid in pids))


def others(devices: Iterable[DeviceSample], own: frozenset[int]) -> int | None:
    """Number of processes on the devices that are not our own; None if no device lists processes, or by other ids."""
    listed = [device.process_ids for device in devices if device.process_ids is not None]
    if not listed:
        return None
    running = {pid for pids in listed for pid in pids}
    if running and os.readlink("/proc/self/ns/pid") != INITIAL_PID_NAMESPACE:
        return None
    return len(running - own)


def other_share(samples: Sequence[tuple[float, HostSample]]) -> float | None:
    """Share of the cores that other processes used over samples with their times in seconds; None if unknown.

    An interval in which the counter of our own processes went back, because one was lost, is left out.
    """
    load = HostLoad()
    for at, host in samples:
        load.add(HostReading(at, host))
    return load.share
