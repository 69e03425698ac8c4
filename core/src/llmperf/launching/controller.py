"""Starts the agents of a run, watches them, and ends every process that they leave."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from llmperf.errors import UserError
from llmperf.launching.hang import find_hanging
from llmperf.launching.launchers import free_port, node_commands
from llmperf.launching.progress import Follower
from llmperf.launching.wakeup import Wakeup
from llmperf.measuring.processes import end_with_parent, group_of, send, send_group, sweep, tagged
from llmperf.runfolder import filenames
from llmperf.runfolder.logs import log_tail
from llmperf.runfolder.reader import RecordFile
from llmperf.types.launching import Launcher, NodeCommand
from llmperf.types.observing import Progress, StepProgress
from llmperf.types.plan import LOWEST_UTILISATION, Plan
from llmperf.types.records import FailureRecord, StepRecord

Observe = Callable[[Progress, Sequence[StepProgress]], None]

TICK_SECONDS = 0.2
GRACE_SECONDS = 4.0
"""Time between asking the agents to end, which then stop their ranks, and killing them."""

KILL_SECONDS = 1.0
"""Time for the guard of an agent to kill everything below it."""
STEPS_OF_PATIENCE = 3
"""A run has hung if it is silent for this many times its longest step, and for `Plan.stall_seconds`."""

TAKEN = re.compile(r"EADDRINUSE|address already in use", re.IGNORECASE)
LOG_LINES = 200
FIRST_START = "first-start"
"""Folder below the logs with the logs and records of the start that failed."""

Cause = Literal["ended", "hung", "interrupted"]


class Patience(NamedTuple):
    """The time without progress after which a run has hung, and which limit that is."""

    seconds: float
    why: str


class Controller:
    """The processes of one run on this machine."""

    def __init__(self, run: Path, plan: Plan, launcher: Launcher, tag: str, waiting_frames: Sequence[str]) -> None:
        self._run = run
        self._plan = plan
        self._tag = tag
        self._launcher = launcher
        self._waiting_frames = waiting_frames
        self._port = free_port()
        self._agents: list[subprocess.Popen[bytes]] = []
        self._follower = Follower(run, plan)
        self._notes: tuple[str, ...] = ()
        self.rank: int | None = None
        self.message = ""

    @property
    def notes(self) -> tuple[str, ...]:
        """Problems that did not end the run."""
        return (*self._notes, *((self._follower.problem,) if self._follower.problem else ()))

    def start_again(self) -> None:
        """Start every agent a second time, after all have ended, with another port for the ranks to meet at."""
        taken, self._port = self._port, free_port()
        self._notes = (
            f"a rank could not listen on its port, which was in use already: the ranks were started a second time, with"
            f" port {self._port} in the place of {taken}; logs/{FIRST_START} has what the first start left",
        )
        set_aside(self._run)
        self._agents = []
        self._follower = Follower(self._run, self._plan)
        self.start()

    def start(self) -> None:
        """Start every agent in its own session; each ends when this process ends.

        UserError if the launcher gives no commands or one cannot be started.
        """
        for command in self._launcher.commands(node_commands(self._run, self._plan, self._tag, self._port)):
            try:
                self._agents.append(self._started(command))
            except OSError as error:
                where = f"launcher {self._plan.launcher!r}"
                raise UserError(f"{where}: cannot start {command.argv[0]}: {error.strerror}") from None

    def _started(self, command: NodeCommand) -> subprocess.Popen[bytes]:
        with filenames.agent_log_path(self._run, command.node_rank).open("ab") as log:
            return subprocess.Popen(
                command.argv,
                env={**os.environ, **command.env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent(signal.SIGTERM),
            )

    def watch(self, wakeup: Wakeup, observe: Observe | None) -> Cause:
        """Wait until the agents end, the run hangs, or the user interrupts it; `message` and `rank` say more."""
        moved = looked = time.monotonic()
        while True:
            wakeup.wait(TICK_SECONDS)
            if wakeup.signal is not None:
                self.message = f"interrupted by {signal.Signals(wakeup.signal).name}"
                return "interrupted"
            over = self._over()
            if over or time.monotonic() - looked >= 0.9 * TICK_SECONDS:  # a process of an observer wakes this loop too
                looked = time.monotonic()
                if self._follower.look():
                    moved = looked
                if observe is not None:
                    observe(*self.latest())
            if over:
                return "ended"
            patience = self._patience()
            if time.monotonic() - moved > patience.seconds:
                self._hung(time.monotonic() - moved, patience)
                return "hung"

    def latest(self) -> tuple[Progress, tuple[StepProgress, ...]]:
        """The present state, and the steps that have finished since the last call."""
        return self._follower.progress(), self._follower.take_steps()

    def _over(self) -> bool:
        """Whether all agents have ended, or one has failed."""
        codes = [agent.poll() for agent in self._agents]
        return all(code == 0 for code in codes) or any(codes)

    def _patience(self) -> Patience:
        """How long the ranks may be silent in this phase."""
        plan, longest = self._plan, self._follower.longest_step_seconds
        if self._follower.stepping or self._follower.ending:
            if STEPS_OF_PATIENCE * longest > plan.stall_seconds:
                return Patience(STEPS_OF_PATIENCE * longest, f"{STEPS_OF_PATIENCE} x the longest step so far")
            return Patience(plan.stall_seconds, "--stall-timeout")
        if not longest and plan.first_step_seconds > plan.startup_seconds:
            return Patience(plan.first_step_seconds, f"one step at {100 * LOWEST_UTILISATION:.0f} % of the peak")
        return Patience(plan.startup_seconds, "--startup-timeout")

    def _hung(self, seconds: float, patience: Patience) -> None:
        what = "no rank finished a step" if self._follower.stepping else "no rank moved on"
        self.rank, why = find_hanging(self._run, self._follower.finished_steps, self._waiting_frames)
        self.message = f"{what} for {seconds:.0f} s (limit {round(patience.seconds, 1):g} s: {patience.why}); {why}"

    def stop(self, wakeup: Wakeup | None = None) -> tuple[int | None, ...]:
        """End all processes that still run, first by SIGTERM, then by SIGKILL; returns the agents' exit codes.

        A further signal in `wakeup` skips the wait for SIGTERM.
        """
        for agent in self._agents:
            if agent.poll() is None:
                send(agent.pid, signal.SIGTERM)
        heard = wakeup.count if wakeup else 0
        deadline = time.monotonic() + GRACE_SECONDS
        while any(agent.poll() is None for agent in self._agents) and time.monotonic() < deadline:
            if wakeup is not None and wakeup.count > heard:
                break
            time.sleep(0.02)
        codes = tuple(agent.poll() for agent in self._agents)
        self._kill()
        sweep(self._tag)
        for agent in self._agents:
            agent.wait()
        self._follower.look()
        return codes

    def _kill(self) -> None:
        """Kill the agents that did not end: a second SIGTERM makes each guard kill everything below it."""
        late = [agent for agent in self._agents if agent.poll() is None]
        for agent in late:
            send(agent.pid, signal.SIGTERM)
        deadline = time.monotonic() + KILL_SECONDS
        while any(agent.poll() is None for agent in late) and time.monotonic() < deadline:
            time.sleep(0.02)
        for agent in late:
            if agent.poll() is None:
                send_group(agent.pid, signal.SIGKILL)
        deadline = time.monotonic() + GRACE_SECONDS
        while self._without_guard() and time.monotonic() < deadline:
            time.sleep(0.05)

    def _without_guard(self) -> bool:
        """Whether an agent whose guard was killed still runs: it must have time to end the processes below it."""
        groups = {agent.pid for agent in self._agents if agent.poll() == -signal.SIGKILL}
        return bool(groups) and any(group_of(pid) in groups for pid in tagged(self._tag))


def port_was_taken(run: Path, plan: Plan) -> bool:
    """Whether a rank failed before the first step because it could not listen on its port."""
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
