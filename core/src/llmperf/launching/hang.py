"""Finds the rank that hangs, when no rank makes progress."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from llmperf.measuring.loop import MeasuredLoop
from llmperf.measuring.processes import send
from llmperf.runfolder import filenames
from llmperf.runfolder.endings import read_reports

LOOP = "llmperf/measuring/loop.py"
STEPPING = MeasuredLoop._steps.__name__
"""The function of the loop that calls the trainer; in its other functions the loop waits for the device."""
INNERMOST_FRAMES = 4
DUMP_SECONDS = 3.0
"""Time for the ranks to write their stacks; on a busy machine a healthy one may take a second."""
MAX_DUMP_BYTES = 256 * 1024

_THREAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):$")
_FRAME = re.compile(r'^  File "(.*)", line \d+ in (.*)$')


def find_hanging(
    dumps: Mapping[int, str], finished_steps: Sequence[int], waiting: Sequence[str]
) -> tuple[int | None, str]:
    """The rank that hangs, or None if that is unknown, and the reason, from what `dump_stacks` returns.

    It is the rank with the fewest finished steps. Among several such ranks, it is the one that does not wait for
    others, or the only one that does not answer (a stopped process, a driver call that never returns). `waiting` is
    `Facts.waiting_frames`.
    """
    fewest = min(finished_steps)
    behind = [rank for rank, steps in enumerate(finished_steps) if steps == fewest]
    if len(behind) == 1:
        more = "" if len(finished_steps) == 1 else "; the others have finished more"
        return behind[0], f"rank {behind[0]} has finished {fewest} steps{more}"
    busy = [rank for rank in behind if rank in dumps and not is_waiting(dumps[rank], waiting)]
    mute = [rank for rank in busy if not dumps[rank]]
    if len(busy) == 1 or (len(mute) == 1 and len(behind) > 1):
        rank = busy[0] if len(busy) == 1 else mute[0]
        more = "; the others wait for it" if len(busy) == 1 else "; the others do"
        return rank, f"rank {rank} {_doing(dumps[rank])}{more}"
    ranks = ", ".join(map(str, behind[:16]))
    told = f"which rank hangs cannot be told: ranks {ranks} have all finished {fewest} steps"
    return None, f"{told} and wait for one another" if dumps and not busy else told


def _doing(dump: str) -> str:
    stack = main_stack(dump)
    return f"is at {Path(stack[0][0]).name} in {stack[0][1]}" if stack else "does not even show its stack"


def dump_stacks(run: Path) -> dict[int, str]:
    """Stacks that running ranks write to their logs when asked; empty text if it does not answer."""
    running = [process for report in read_reports(run) for process in report.ranks if process.at is None]
    logs = {process.rank: filenames.log_path(run, process.rank) for process in running}
    before = {rank: path.stat().st_size if path.exists() else 0 for rank, path in logs.items()}
    for process in running:
        send(process.pid, signal.SIGUSR1)
    dumps: dict[int, str] = {}
    deadline = time.monotonic() + DUMP_SECONDS
    while time.monotonic() < deadline:
        time.sleep(0.2)  # also between the first line of a dump and its last
        earlier, dumps = dumps, {rank: _added(path, before[rank]) for rank, path in logs.items()}
        if dumps == earlier and all(dumps.values()):
            break
    return dumps


def _added(path: Path, size: int) -> str:
    try:
        with path.open("rb") as file:
            file.seek(size)
            return file.read(MAX_DUMP_BYTES).decode(errors="replace")
    except OSError:
        return ""


def main_stack(dump: str) -> list[tuple[str, str]]:
    """File and function of the main thread's frames, innermost first; Python dumps its oldest thread last."""
    stacks: list[list[tuple[str, str]]] = []
    for line in dump.splitlines():
        if _THREAD.match(line):
            stacks.append([])
        elif stacks and (frame := _FRAME.match(line)):
            stacks[-1].append((frame.group(1), frame.group(2)))
    return stacks[-1] if stacks else []


def is_waiting(dump: str, waiting: Sequence[str]) -> bool:
    """Check whether the main thread waits for other ranks or for the device, judged by its innermost frames."""
    stack = main_stack(dump)
    frames = [f"{file} in {function}" for file, function in stack[:INNERMOST_FRAMES]]
    return any(mark in frame for frame in frames for mark in waiting) or _waits_in_loop(stack)


def _waits_in_loop(stack: Sequence[tuple[str, str]]) -> bool:
    """Check whether the measured loop waits for the device.

    This is so on a rank whose device waits for others in a collective: the host runs ahead of it, then waits.
    """
    for depth, (file, function) in enumerate(stack):
        if file.endswith(LOOP):
            return depth == 0 or function != STEPPING
    return False
