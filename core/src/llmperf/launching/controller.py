"""Starts the agents of a run, watches them, and ends every process that they leave."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from llmperf.errors import UserError
from llmperf.launching.hang import find_hanging
from llmperf.launching.progress import Follower
from llmperf.launching.wakeup import Wakeup
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


class Patience(NamedTuple):
    """The time without progress after which a run has hung, and which limit that is."""

    seconds: float
    why: str


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

    def start_again(self, wakeup: Wakeup) -> None:
        """Start every agent a second time, after all have ended, with another port for the ranks to meet at."""
        taken = self._agents.port
        set_aside(self._run)
        self._agents = self._make_agents()
        self._follower = Follower(self._run, self._plan)
        self.start(wakeup)
        self._notes = (
            f"a rank could not listen on its port, which was in use already: the ranks were started a second time, with"
            f" port {self._agents.port} in the place of {taken}; logs/{FIRST_START} has what the first start left",
        )

    def start(self, wakeup: Wakeup) -> None:
        """Start every agent; each ends when this process ends. UserError if one cannot be started."""

        def interrupted(seconds: float) -> bool:
            wakeup.wait(seconds)
            return wakeup.signal is not None

        self._agents.start(interrupted)

    def watch(self, wakeup: Wakeup, observe: Observe | None) -> Cause:
        """Wait until the agents end, a node is lost, the run hangs, or the user interrupts it.

        `message`, `rank` and `node` say more.
        """
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
            patience = self._patience()
            if time.monotonic() - moved > patience.seconds:
                self._hung(time.monotonic() - moved, patience)
                return "hung"

    def latest(self) -> tuple[Progress, tuple[StepProgress, ...]]:
        """The present state, and the steps that have finished since the last call."""
        return self._follower.progress(), self._follower.take_steps()

    def _patience(self) -> Patience:
        """Time for which the ranks may be silent in this phase."""
        plan, longest = self._plan, self._follower.longest_step_seconds
        if self._follower.stepping or self._follower.ending:
            if STEPS_OF_PATIENCE * longest > plan.stall_seconds:
                return Patience(STEPS_OF_PATIENCE * longest, f"{STEPS_OF_PATIENCE} x the longest step so far")
            return Patience(plan.stall_seconds, "--stall-timeout")
        if not longest and plan.first_step_seconds > plan.startup_seconds:
            return Patience(plan.first_step_seconds, f"{SLOWEST_STEP} x the expected step")
        return Patience(plan.startup_seconds, "--startup-timeout")

    def _hung(self, seconds: float, patience: Patience) -> None:
        what = "no rank finished a step" if self._follower.stepping else "no rank moved on"
        self.rank, why = find_hanging(self._agents.stacks(), self._follower.finished_steps, self._waiting_frames)
        self.message = f"{what} for {seconds:.0f} s (limit {round(patience.seconds, 1):g} s: {patience.why}); {why}"
        if self.rank is None and self._plan.layout.nodes > 1:
            self.message += (
                "; the network between the nodes may carry no data: `llmperf doctor` with --hosts measures it"
            )

    def stop(self, wakeup: Wakeup | None = None) -> tuple[int | None, ...]:
        """End all processes that still run, first by SIGTERM, then by SIGKILL; returns the agents' exit codes.

        A further signal in `wakeup` skips the wait for SIGTERM.
        """
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
            for block in RecordFile(filenames.records_path(run, rank)).blocks():
                if any(isinstance(record, StepRecord) for record in block):
                    return False
                failures += [record for record in block if isinstance(record, FailureRecord)]
    except UserError:
        return False
    if any(TAKEN.search(failure.message) or TAKEN.search(failure.traceback) for failure in failures):
        return True
    return any(TAKEN.search(line) for rank in ranks for line in log_tail(filenames.log_path(run, rank), LOG_LINES))


def set_aside(run: Path) -> None:
    """Move the files of the first start away, so that the second start does not append to them."""
    folder = run / filenames.LOGS / FIRST_START
    folder.mkdir()
    for parent in (filenames.RECORDS, filenames.LOGS):
        for path in sorted((run / parent).iterdir()):
            if path.is_file():
                path.rename(folder / path.name)
