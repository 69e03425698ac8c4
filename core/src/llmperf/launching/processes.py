"""Processes that end with who started them, and finding those that did not."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

TAG = "LLMPERF_RUN_ID"
"""Every process of a run carries this variable, so that none is overlooked at the end."""

SWEEP_SECONDS = 3.0

_PR_SET_PDEATHSIG = 1


def end_with_parent(how: signal.Signals) -> Callable[[], None] | None:
    """For `Popen(preexec_fn=...)`: the child gets signal `how` when this process ends, however it ends.

    None where the system cannot do it (all but Linux).
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


def sweep(tag: str) -> list[int]:
    """Kill whatever still carries `tag`, and what that has started meanwhile, and see it gone; returns the ids.

    A process that the system cannot end within SWEEP_SECONDS (it waits for a disk or a driver) is left to the system.
    """
    swept: set[int] = set()
    deadline = time.monotonic() + SWEEP_SECONDS
    while (found := tagged(tag)) and time.monotonic() < deadline:
        for pid in found:
            send(pid, signal.SIGKILL)
        swept.update(found)
        time.sleep(0.01)
    return sorted(swept)


def send(pid: int, what: signal.Signals) -> None:
    """Signal one process, which may be gone."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, what)


def send_group(pid: int, what: signal.Signals) -> None:
    """Signal a process group, which may be gone."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, what)
