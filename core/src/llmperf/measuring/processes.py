"""Processes that end with their parent, the search for those that did not, and a quick end of this one."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, NoReturn

TAG = "LLMPERF_RUN_ID"
"""Every process of a run has this variable, so that none is overlooked at the end."""

SWEEP_SECONDS = 3.0

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def end_with_parent(how: signal.Signals) -> Callable[[], None] | None:
    """A `preexec_fn` for `Popen`: the child gets the signal `how` when this process ends. None but on Linux."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    prctl, parent = ctypes.CDLL(None, use_errno=True).prctl, os.getpid()

    def bind() -> None:
        prctl(_PR_SET_PDEATHSIG, int(how), 0, 0, 0)
        if os.getppid() != parent:  # it ended before the child got here
            os._exit(1)

    return bind


def adopt_orphans(adopt: bool = True) -> None:
    """Become the parent of every descendant whose parent ends, so that `end_descendants` finds it; only on Linux."""
    if sys.platform.startswith("linux"):
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, int(adopt), 0, 0, 0)


class Process(NamedTuple):
    """One process of this host."""

    name: str
    state: str
    """Letter of the kernel, such as Z for one that has ended and was not waited for."""
    parent: int
    session: int
    ticks: int
    """CPU time of its own."""
    waited_ticks: int
    """CPU time of its children that have ended and were waited for."""
    core: int
    """The core that it ran on last."""
    start: int
    """Start time, which tells it from an earlier process of the same id."""


def processes_here() -> dict[int, Process]:
    """All processes that this one can see, by id."""
    processes = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                head, _, rest = file.read().rpartition(b")")
        except OSError:  # it has just ended
            continue
        fields = rest.split()
        utime, stime, waited_utime, waited_stime = map(int, fields[11:15])
        name = head.partition(b"(")[2].decode(errors="replace")
        processes[int(entry)] = Process(
            name=name,
            state=fields[0].decode(),
            parent=int(fields[1]),
            session=int(fields[3]),
            ticks=utime + stime,
            waited_ticks=waited_utime + waited_stime,
            core=int(fields[36]),
            start=int(fields[19]),
        )
    return processes


def ticks_now() -> int:
    """This moment as `Process.start`; 0 but on Linux."""
    if sys.platform != "linux":
        return 0
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def own_pids(processes: Mapping[int, Process], root: int) -> frozenset[int]:
    """A process and its descendants."""
    children = defaultdict(list)
    for pid, process in processes.items():
        children[process.parent].append(pid)
    pids, pending = set(), [root]
    while pending:
        pid = pending.pop()
        pids.add(pid)
        pending += children[pid]
    return frozenset(pids)


def end_descendants(chosen: Callable[[Process], bool] = lambda process: True) -> None:
    """Kill all chosen processes below this one, also those that they start meanwhile, and reap its chosen children.

    A process in another session is found if `adopt_orphans` was called before it started.
    """
    deadline, running = time.monotonic() + SWEEP_SECONDS, True
    while running and time.monotonic() < deadline:
        running = False
        with suppress(OSError, ValueError, IndexError):  # without /proc, none are known
            processes = processes_here()
            for pid in own_pids(processes, os.getpid()) - {os.getpid()}:
                if not chosen(processes[pid]):
                    continue
                if processes[pid].state != "Z":
                    running = True
                    send(pid, signal.SIGKILL)
                with suppress(ChildProcessError):  # the child of another process
                    os.waitpid(pid, os.WNOHANG)
        time.sleep(0.01 if running else 0)


def left_of_run(run_id: str) -> bool:
    """Check whether a process of a run still runs on this machine, such as after its controller was killed."""
    start = f"{TAG}={run_id}-".encode()
    return any(variable.startswith(start) for _, variables in _variables() for variable in variables)


def _variables() -> Iterator[tuple[int, list[bytes]]]:
    """Ids of the processes of this machine, with the variables that they were started with."""
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # another user's, or gone by now
            yield int(entry.parent.name), entry.read_bytes().split(b"\0")


def sweep(tag: str) -> list[int]:
    """Kill all processes that carry `tag` but this one, for SWEEP_SECONDS at most; returns their ids."""
    swept, wanted = set[int](), f"{TAG}={tag}".encode()
    deadline = time.monotonic() + SWEEP_SECONDS
    while time.monotonic() < deadline:
        pids = [pid for pid, variables in _variables() if wanted in variables and pid != os.getpid()]
        if not pids:
            break
        for pid in pids:
            send(pid, signal.SIGKILL)
        swept.update(pids)
        time.sleep(0.01)
    return sorted(swept)


def send(pid: int, what: signal.Signals) -> None:
    """Signal a process, which may have ended."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, what)


def send_group(pid: int, what: signal.Signals) -> None:
    """Signal a process group, which may have ended."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, what)


def leave(code: int) -> NoReturn:
    """End the process, when all is recorded, without the interpreter's shutdown, where native code aborts."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")


class OomKills(NamedTuple):
    """Counters of the kernel; None where it does not show them."""

    group: int | None
    """Processes of this control group that were killed, whoever's limit was reached."""
    host: int | None
    """Processes of the whole host, those of other containers too."""

    def risen_since(self, before: OomKills) -> bool:
        """Check whether a process was killed since; the count of the host decides only where the group has none."""
        now, earlier = (self.host, before.host) if self.group is None else (self.group, before.group)
        return now is not None and earlier is not None and now > earlier


def oom_kills(proc: Path = PROC, cgroups: Path = CGROUPS) -> OomKills:
    """The counters now."""
    groups = (counters(file).get("oom_kill") for file in _files(proc, cgroups))
    own = next((count for count in groups if count is not None), None)
    return OomKills(own, counters(proc / "vmstat").get("oom_kill"))


def _files(proc: Path, cgroups: Path) -> Iterator[Path]:
    """Files with counts of this process's control group, in versions 1 and 2; a container sees its group as `/`."""
    lines: list[str] = []
    with suppress(OSError):
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    for line in lines:
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        below = path.strip("/")
        if "memory" in controllers.split(","):
            yield from (cgroups / "memory" / part / "memory.oom_control" for part in dict.fromkeys((below, "")))
        elif number == "0":
            yield from (cgroups / part / "memory.events" for part in dict.fromkeys((below, "")))


def counters(file: Path) -> dict[str, int]:
    """The numbers of a file of the kernel with a name and a number on each line; {} if it cannot be read."""
    try:
        lines = [line.split() for line in file.read_text().splitlines()]
    except OSError:
        return {}
    return {words[0].rstrip(":"): int(words[1]) for words in lines if len(words) > 1 and words[1].isdigit()}
