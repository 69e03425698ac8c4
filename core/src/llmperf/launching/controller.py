"""Starts the agents of a run, watches them, finds the rank that hangs, and ends every process that they leave."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from llmperf.errors import UserError
from llmperf.launching.progress import Follower
from llmperf.launching.wakeup import Wakeup
from llmperf.measuring.loop import MeasuredLoop
from llmperf.runfolder import filenames
from llmperf.runfolder.logs import log_tail
from llmperf.runfolder.reader import RecordFile
from llmperf.types.observing import Progress, StepProgress
from llmperf.types.plan import SLOWEST_STEP, Plan
from llmperf.types.records import FailureRecord, StepRecord
from llmperf.types.remote import Agents

Observe = Callable[[Progress, Sequence[StepProgress]], None]

TICK_SECONDS = 0.2
LOOK_SECONDS = 1.0
"""Longest time of reading records before agents and signals are looked after again."""
LATE_SECONDS = 2.0
"""Time between two looks at the ranks on a busy host. A longer time was spent suspended, which is not silence."""
STEPS_OF_PATIENCE = 3
"""A run has hung if it is silent for this many times its longest step, and for `Plan.stall_seconds`."""

TAKEN = re.compile(r"EADDRINUSE|address already in use", re.IGNORECASE)
LOG_LINES = 200
FIRST_START = "first-start"
"""Folder below the logs with the logs and records of the start that failed."""

Cause = Literal["ended", "lost", "hung", "interrupted", "controller"]


class Controller:
    """One run: its agents, and what its ranks record."""

    def __init__(self, run: Path, plan: Plan, agents: Callable[[], Agents], waiting_frames: Sequence[str]) -> None:
        """`agents` makes the agents of one start."""
        self._run = run
        self._plan = plan
        self._make_agents = agents
        self._agents = agents()
        self._waiting_frames = waiting_frames
        self._follower = Follower(run, plan)
        self._notes: tuple[str, ...] = ()
        self.rank: int | None = None
        self.node: int | None = None
        self.message = ""

    @property
    def notes(self) -> tuple[str, ...]:
        """Problems that did not end the run."""
        problem = self._follower.problem
        return (*self._notes, *self._agents.notes, *((problem,) if problem else ()))

    def run(self, wakeup: Wakeup, observe: Observe | None) -> tuple[Cause, tuple[int | None, ...]]:
        """Start every agent, watch them, and end what they leave; why the run ended, and their exit codes."""

        def interrupted(seconds: float) -> bool:
            wakeup.wait(seconds)
            return wakeup.signal is not None

        while True:
            self._agents.start(interrupted)
            cause, codes = self.watch(wakeup, observe), self.stop(wakeup)
            if self._notes or cause != "ended" or not any(codes) or not port_was_taken(self._run, self._plan):
                break
            taken = self._agents.port
            # what the second start appends to must not have records of the first
            folder = self._run / filenames.LOGS / FIRST_START
            folder.mkdir()
            for parent in (filenames.RECORDS, filenames.LOGS):
                for path in sorted((self._run / parent).iterdir()):
                    if path.is_file():
                        path.rename(folder / path.name)
            self._agents, self._follower = self._make_agents(), Follower(self._run, self._plan)
            self._notes = (
                f"a rank could not listen on its port, which was in use already: the ranks were started a second time,"
                f" with port {self._agents.port} in the place of {taken}; logs/{FIRST_START} has what the first start"
                " left",
            )
        if cause == "ended" and self.message:
            cause = "controller" if self.node is None else "lost"
        return cause, codes

    def watch(self, wakeup: Wakeup, observe: Observe | None) -> Cause:
        """Wait until the agents end, a node is lost, the run hangs, or the user interrupts it."""
        moved = looked = time.monotonic()
        while True:
            wakeup.wait(TICK_SECONDS)
            if wakeup.signal is not None:
                self.message = f"interrupted by {signal.Signals(wakeup.signal).name}"
                return "interrupted"
            codes = self._agents.codes()
            over = all(code == 0 for code in codes) or any(codes)
            if over or time.monotonic() - looked >= 0.9 * TICK_SECONDS:  # a process of an observer wakes this loop too
                before, looked = looked, time.monotonic()
                moved += max(0.0, looked - before - LATE_SECONDS)
                if self._follower.look(LOOK_SECONDS):
                    moved = looked
                if observe is not None:
                    observe(*self.latest())
            if (lost := self._agents.lost()) is not None:
                self.node, self.message = lost
                return "lost" if self.node is not None else "controller"
            if over:
                return "ended"
            # the time for which the ranks may be silent in this phase, and which limit that is
            plan, longest, stepping = self._plan, self._follower.longest_step_seconds, self._follower.stepping
            patience, why = plan.startup_seconds, "--startup-timeout"
            if stepping or self._follower.ending:
                patience, why = plan.stall_seconds, "--stall-timeout"
                if STEPS_OF_PATIENCE * longest > patience:
                    patience, why = STEPS_OF_PATIENCE * longest, f"{STEPS_OF_PATIENCE} x the longest step so far"
            elif not longest and plan.first_step_seconds > patience:
                patience, why = plan.first_step_seconds, f"{SLOWEST_STEP} x the expected step"
            if (silent := time.monotonic() - moved) > patience:
                what = "no rank finished a step" if stepping else "no rank moved on"
                limit = f"limit {round(patience, 1):g} s: {why}"
                steps, stacks = self._follower.finished_steps, self._agents.stacks()
                self.rank, cause = find_hanging(stacks, steps, self._waiting_frames)
                self.message = f"{what} for {silent:.0f} s ({limit}); {cause}"
                if self.rank is None and plan.layout.nodes > 1:
                    self.message += (
                        "; the network between the nodes may carry no data: `llmperf doctor` with --hosts measures it"
                    )
                return "hung"

    def latest(self) -> tuple[Progress, tuple[StepProgress, ...]]:
        """The present state, and the steps that have finished since the last call."""
        return self._follower.progress(), self._follower.take_steps()

    def stop(self, wakeup: Wakeup | None = None) -> tuple[int | None, ...]:
        """End all by SIGTERM, then by SIGKILL, at once if `wakeup` has a further signal; the exit codes."""
        heard = wakeup.count if wakeup else 0
        codes = self._agents.stop(lambda: wakeup is not None and wakeup.count > heard)
        if None in codes and (lost := self._agents.lost()) is not None and self.node is None:
            self.node, self.message = lost
        self._follower.look()
        return codes


def port_was_taken(run: Path, plan: Plan) -> bool:
    """Check whether a rank failed before the first step because it could not listen on its port."""
    ranks = range(plan.layout.world_size)
    failures: list[FailureRecord] = []
    try:
        for rank in ranks:
            for record in RecordFile(filenames.records_path(run, rank)):
                if isinstance(record, StepRecord):
                    return False
                failures += [record] if isinstance(record, FailureRecord) else []
    except UserError:
        return False
    if any(TAKEN.search(failure.message) or TAKEN.search(failure.traceback) for failure in failures):
        return True
    return any(TAKEN.search(line) for rank in ranks for line in log_tail(filenames.log_path(run, rank), LOG_LINES))


LOOP = "llmperf/measuring/loop.py"
STEPPING = MeasuredLoop._steps.__name__
"""The function of the loop that calls the trainer; in its other functions the loop waits for the device."""
INNERMOST_FRAMES = 4

_THREAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):$")
_FRAME = re.compile(r'^  File "(.*)", line \d+ in (.*)$')


def find_hanging(
    dumps: Mapping[int, str], finished_steps: Sequence[int], waiting: Sequence[str]
) -> tuple[int | None, str]:
    """The rank that hangs, or None if that is unknown, and the reason, from what `Agents.stacks` returns.

    Of the ranks with the fewest steps, it is the one that does not wait for others, or alone does not answer.
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
        stack = main_stack(dumps[rank])
        doing = f"is at {Path(stack[0][0]).name} in {stack[0][1]}" if stack else "does not even show its stack"
        return rank, f"rank {rank} {doing}{more}"
    ranks = ", ".join(map(str, behind[:16]))
    told = f"which rank hangs cannot be told: ranks {ranks} have all finished {fewest} steps"
    return None, f"{told} and wait for one another" if dumps and not busy else told


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
    if any(mark in frame for frame in frames for mark in waiting):
        return True
    in_loop = [(depth, function) for depth, (file, function) in enumerate(stack) if file.endswith(LOOP)]
    return bool(in_loop) and (in_loop[0][0] == 0 or in_loop[0][1] != STEPPING)
