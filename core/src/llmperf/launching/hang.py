"""Which rank is it that hangs, when none of them goes on?"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from llmperf import rundir
from llmperf.launching.processes import send
from llmperf.results.endings import read_reports

WAITING = (
    "torch/distributed/",
    "torch/nn/parallel/distributed.py",
    "torch/cuda/__init__.py",
    "deepspeed/comm/",
    "paddle/distributed/",
    "_engine_run_backward",
    " in synchronize",
    " in barrier",
    " in wait",
)
"""What the innermost frames of a rank show that waits for the others, or for a device that waits for theirs."""
INNERMOST_FRAMES = 4
DUMP_SECONDS = 1.0
"""How long the ranks have to write their stacks."""
MAX_DUMP_BYTES = 256 * 1024

_THREAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):$")
_FRAME = re.compile(r'^  File "(.*)", line \d+ in (.*)$')


def find_hanging(run: Path, finished_steps: Sequence[int]) -> tuple[int | None, str]:
    """Have all ranks dump their stacks into their logs; then the rank that hangs, or None, and why it is that one.

    It is the one with the fewest finished steps; if several have, the one of those that does not wait for others.
    """
    dumps = dump_stacks(run, len(finished_steps))
    fewest = min(finished_steps)
    behind = [rank for rank, steps in enumerate(finished_steps) if steps == fewest]
    if len(behind) == 1:
        more = "" if len(finished_steps) == 1 else "; the others have finished more"
        return behind[0], f"rank {behind[0]} has finished {fewest} steps{more}"
    busy = [rank for rank in behind if dumps[rank] and not is_waiting(dumps[rank])]
    if len(busy) == 1:
        where = innermost(dumps[busy[0]])
        return busy[0], f"rank {busy[0]} is at {where}; the others wait for it"
    ranks = ", ".join(map(str, behind[:16]))
    return None, f"which rank hangs cannot be told: ranks {ranks} have all finished {fewest} steps"


def dump_stacks(run: Path, world: int) -> list[str]:
    """What each rank on this machine adds to its log when it is asked for its stacks."""
    logs = [rundir.log_path(run, rank) for rank in range(world)]
    before = [path.stat().st_size if path.exists() else 0 for path in logs]
    asked = [one for report in read_reports(run) for one in report.ranks if one.at is None]
    for one in asked:
        send(one.pid, signal.SIGUSR1)
    deadline = time.monotonic() + DUMP_SECONDS
    while time.monotonic() < deadline:
        time.sleep(0.1)
        dumps = [_added(path, size) for path, size in zip(logs, before, strict=True)]
        if all(dumps[one.rank].endswith("\n") for one in asked if one.rank < world):
            time.sleep(0.1)
            break
    return [_added(path, size) for path, size in zip(logs, before, strict=True)]


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


def is_waiting(dump: str) -> bool:
    """Whether the main thread waits for other ranks or for the device, as far as its innermost frames tell."""
    frames = [f"{file} in {function}" for file, function in main_stack(dump)[:INNERMOST_FRAMES]]
    return any(mark in frame for frame in frames for mark in WAITING)


def innermost(dump: str) -> str:
    """The innermost frame of the main thread, such as `trainer.py in train_step`."""
    stack = main_stack(dump)
    return f"{Path(stack[0][0]).name} in {stack[0][1]}" if stack else "an unknown place"
