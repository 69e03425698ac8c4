"""Processes that end with their parent, and the search for those that did not."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

TAG = "LLMPERF_RUN_ID"
"""Every process of a run has this variable, so that none is overlooked at the end."""

SWEEP_SECONDS = 3.0

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def end_with_parent(how: signal.Signals) -> Callable[[], None] | None:
    """A `preexec_fn` for `Popen`: the child gets the signal `how` when this process ends for any reason.

    None on systems other than Linux, which cannot do it.
    """
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    prctl, parent = ctypes.CDLL(None, use_errno=True).prctl, os.getpid()

    def bind() -> None:
        prctl(_PR_SET_PDEATHSIG, int(how), 0, 0, 0)
        if os.getppid() != parent:  # it ended before the child got here
            os._exit(1)

    return bind


def adopt_orphans() -> None:
    """Become the parent of every descendant whose parent ends, so that `descendants` finds it; only on Linux."""
    if sys.platform.startswith("linux"):
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants() -> list[int]:
    """Ids of the running processes below this one; empty without /proc."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            state, parent = entry.read_text(errors="replace").rpartition(")")[2].split()[:2]
            if state != "Z":
                parents[int(entry.parent.name)] = int(parent)
    pids: set[int] = set()
    below = {os.getpid()}
    while below:
        below = {pid for pid, parent in parents.items() if parent in below} - pids
        pids |= below
    return sorted(pids)


def end_descendants() -> None:
    """Kill all processes below this one, also those that they start meanwhile, and reap this process's children.

    A process in another session or with a cleared environment is found if `adopt_orphans` was called before it started.
    A process that the system cannot end within SWEEP_SECONDS is left to the system.
    """
    deadline = time.monotonic() + SWEEP_SECONDS
    while (pids := descendants()) and time.monotonic() < deadline:
        for pid in pids:
            send(pid, signal.SIGKILL)
        reap_children()
        time.sleep(0.01)
    reap_children()


def reap_children() -> dict[int, int]:
    """The exit codes of the children that have ended, by process id; negative for signals."""
    codes = {}
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            codes[ended[0]] = os.waitstatus_to_exitcode(ended[1])
    return codes


def tagged(tag: str) -> list[int]:
    """Ids of the processes on this machine that carry `tag`, this one excepted; empty without /proc."""
    wanted = f"{TAG}={tag}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            carries = wanted in (entry / "environ").read_bytes().split(b"\0")
        except OSError:  # another user's, or gone by now
            continue
        if carries and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


def left_of_run(run_id: str) -> bool:
    """Check whether a process of a run still runs on this machine, such as after its controller was killed."""
    start = f"{TAG}={run_id}-".encode()
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if any(variable.startswith(start) for variable in entry.read_bytes().split(b"\0")):
                return True
    return False


def sweep(tag: str) -> list[int]:
    """Kill all processes that carry `tag`, also those that they start meanwhile, until none is left; returns their ids.

    A process that the system cannot end within SWEEP_SECONDS (it waits for a disk or a driver) is left to the system.
    """
    swept: set[int] = set()
    deadline = time.monotonic() + SWEEP_SECONDS
    while (pids := tagged(tag)) and time.monotonic() < deadline:
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


def group_of(pid: int) -> int | None:
    """The process group of a process; None if it has ended."""
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


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
    groups = (_counter(file) for file in _files(proc, cgroups))
    return OomKills(next((count for count in groups if count is not None), None), _counter(proc / "vmstat"))


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


def _counter(file: Path) -> int | None:
    """The number behind `oom_kill` in a file with a name and a number on each line."""
    with suppress(OSError, ValueError):
        for line in file.read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return None
