"""What this host computes for others while a run goes, read from /proc."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from llmperf.types.devices import DeviceSample
from llmperf.types.records import HostSample

INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO of the kernel: in it, process ids are those that a driver lists."""


class OwnProcesses(NamedTuple):
    """This process and all that it has started, directly or not."""

    pids: frozenset[int]
    ticks: int
    """CPU time of all of them, those that have ended and were waited for included."""


def host_sample(devices: Iterable[DeviceSample] = ()) -> HostSample | None:
    """The counters of this host's cores and of this process's own; None where the system does not show them."""
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
    """Of the text of /proc/stat: time in which these cores neither idled nor waited for disks, stolen time included."""
    wanted = {f"cpu{core}" for core in cores}
    lines = (line.split() for line in stat.splitlines() if line.startswith("cpu"))
    counted = [[int(one) for one in fields[1:9]] for fields in lines if fields[0] in wanted]
    return sum(sum(one) - one[3] - one[4] for one in counted)  # idle and iowait


def own_processes(root: int) -> OwnProcesses:
    """A process and its descendants; one that ends while this looks is counted where its parent has waited for it."""
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
    found, left = set(), [root]
    while left:
        one = left.pop()
        found.add(one)
        left += children[one]
    return OwnProcesses(frozenset(found), sum(ticks.get(one, 0) for one in found))


def others(devices: Iterable[DeviceSample], own: frozenset[int]) -> int | None:
    """Processes on the devices that are none of these; None where no device lists any, or by other ids than ours."""
    listed = [one.process_ids for one in devices if one.process_ids is not None]
    if not listed:
        return None
    found = {pid for pids in listed for pid in pids}
    if found and os.readlink("/proc/self/ns/pid") != INITIAL_PID_NAMESPACE:
        return None
    return len(found - own)


def other_share(samples: Sequence[tuple[float, HostSample]]) -> float | None:
    """Share of the cores that others had over samples with their seconds; None where the counters do not tell.

    An interval in which own processes were lost, so that their counter went back, is left out.
    """
    taken = had = 0.0
    for (at, before), (later, after) in pairwise(samples):
        own = after.own_seconds - before.own_seconds
        if before.cores == after.cores and own >= 0 and later > at:
            taken += after.busy_seconds - before.busy_seconds - own
            had += (later - at) * after.cores
    return min(1.0, max(0.0, taken / had)) if had else None
