"""Follows a submitted job: its state, its output as it grows, and its exit code."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGHUP
from time import monotonic, sleep
from typing import TextIO

from llmperf import printable
from llmperf.errors import Terminated

from llmperf_slurm.script import Job
from llmperf_slurm.tools import SlurmError, call, fields

OUTPUT_SECONDS = 1.0
"""Between two looks at the output."""
STATE_SECONDS = (1.0, 5.0)
"""Between two questions to slurmctld: in the first minute, and later."""
REMIND_SECONDS = 300.0
"""A waiting job is mentioned again after so long."""
CANCEL_SECONDS = 45.0
"""For a job to end in order after it has been cancelled; then Slurm kills it."""
LATE_SECONDS = 10.0
"""For the last output to reach this machine through a shared file system."""
CHUNK_BYTES = 1 << 20
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
"""Left out on a terminal."""


class Tail:
    """The part of a growing file that has not been printed."""

    def __init__(self, path: Path, stream: TextIO, prefix: str) -> None:
        self.path, self._stream, self._prefix = path, stream, prefix
        self._offset = 0
        self._rest = b""

    def print(self, last: bool = False) -> bool:
        """Print the lines that have been added, and at the `last` time an unfinished line; whether there were any."""
        printed = False
        while chunk := self._read():
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            self._write(lines)
            printed = True
        if last and self._rest:
            self._write([self._rest])
            self._rest = b""
        return printed

    def _read(self) -> bytes:
        try:
            with self.path.open("rb") as file:  # opened anew: a file system in the network then shows what is new
                file.seek(self._offset)
                chunk = file.read(CHUNK_BYTES)
        except OSError:
            return b""
        self._offset += len(chunk)
        return chunk

    def _write(self, lines: list[bytes]) -> None:
        for line in lines:
            text = line.decode(errors="replace")
            if self._stream.isatty():  # what a node prints must not control the terminal
                text = printable(COLOUR.sub("", text.rstrip("\r")), keep="\t")
            self._stream.write(f"{self._prefix}{text}\n")
        self._stream.flush()


class Follower:
    """Messages printed so far about a job and its tasks."""

    def __init__(self, job: Job, say: Callable[[str], None]) -> None:
        self._job = job
        self._say = say
        self._states: dict[str, JobState] = {}
        self._began = monotonic()
        self._headline = ""
        self._headline_at = 0.0
        self._unreachable = False
        self._tails: dict[str, tuple[Tail, Tail]] = {}

    def follow(self) -> int:
        """Print what happens until the job has ended; its exit code."""
        asked = -STATE_SECONDS[1]
        while True:
            now = monotonic()
            pause = STATE_SECONDS[now - self._began > 60]
            if now - asked >= pause:
                asked = now
                self._ask()
            self._print()
            if self._all_ended():
                limit = monotonic() + LATE_SECONDS
                while self._print() or (monotonic() < limit and self._missing_output()):
                    sleep(OUTPUT_SECONDS)
                self._print(last=True)
                for output in self._missing_output():
                    self._say(f"no output at {output}: is that folder shared with the nodes of the job?")
                codes = []
                for _, state in sorted(self._states.items(), key=lambda item: (len(item[0]), item[0])):
                    code = state.exit_code or 0
                    if state.state != GOOD:
                        code = code or 1
                    self._say(f"{self._name(state.task)} has ended: {_outcome(state)}")
                    codes.append(code)
                return max(codes)
            sleep(OUTPUT_SECONDS)

    def cancel(self) -> None:
        """Cancel the job: SIGTERM to llmperf, which ends its run in order; after a while, whatever is left of it."""
        job, running = self._job.job, any(not state.waiting and not state.ended for state in self._states.values())
        with suppress(SlurmError):
            if running:
                self._say(f"cancelling job {job}; Ctrl-C again does not wait for its records")
                call("scancel", "--state=PENDING", job)
                call("scancel", "--batch", "--signal=TERM", job)
                limit = monotonic() + CANCEL_SECONDS
                while monotonic() < limit and not self._all_ended():
                    sleep(OUTPUT_SECONDS)
                    self._ask(quiet=True)
                    self._print()
        with suppress(SlurmError):
            call("scancel", job)
        self._print(last=True)
        self._say(f"job {job} is cancelled")

    def leave(self) -> None:
        """Say how to go on after this process has ended."""
        output, _ = self._job.files("*" if self._job.tasks > 1 else "")
        output, job = output.with_suffix(".*"), self._job.job
        self._say(f"job {job} stays; follow it: tail -F {output}; its state: squeue -j {job}; end it: scancel {job}")

    def _ask(self, quiet: bool = False) -> None:
        try:
            states = job_states(self._job.job)
        except SlurmError as error:
            if not self._unreachable:
                self._say(f"slurmctld does not answer ({error}); the job goes on")
            self._unreachable = True
            return
        self._unreachable = False
        known = {state.task: state for state in states}
        for task, state in self._states.items():  # ended tasks are forgotten while others run
            if state.ended and task not in known:
                known[task] = state
        if not states and not self._all_ended():
            known = {task: JobState(task=task, reason="Slurm does not remember it") for task in self._states or [""]}
        for task, state in known.items():
            before = self._states.get(task)
            if before is not None and state.restarts > before.restarts:
                self._say(f"{self._name(task)} was requeued")
            if not state.waiting and task not in self._tails and (self._job.tasks == 1 or task.isdigit()):
                output, errors = self._job.files(task)
                prefix = f"[{task}] " if task else ""
                self._tails[task] = Tail(output, sys.stdout, prefix), Tail(errors, sys.stderr, prefix)
        self._states = known
        if not quiet and not self._all_ended():
            if self._job.tasks == 1 and known:
                headline = _headline(next(iter(known.values())))
            else:
                counts: dict[str, int] = {}
                for state in known.values():
                    counts[state.state] = counts.get(state.state, 0) + state.tasks
                headline = ", ".join(f"{name}: {count}" for name, count in sorted(counts.items()))
            waits = any(state.waiting for state in known.values())
            late = waits and monotonic() - self._headline_at > REMIND_SECONDS
            if headline and (headline != self._headline or late):
                self._say(f"job {self._job.job}: {headline}, {_clock(monotonic() - self._began)} after submission")
                self._headline, self._headline_at = headline, monotonic()

    def _all_ended(self) -> bool:
        return bool(self._states) and all(state.ended for state in self._states.values())

    def _print(self, last: bool = False) -> bool:
        return any([tail.print(last) for pair in self._tails.values() for tail in pair])

    def _missing_output(self) -> list[Path]:
        pairs = [self._tails[task] for task, state in self._states.items() if task in self._tails and state.nodes]
        return [output.path for output, _ in pairs if not output.path.exists()]

    def _name(self, task: str) -> str:
        return f"job {self._job.job}_{task}" if task else f"job {self._job.job}"


def follow(job: Job, say: Callable[[str], None]) -> int:
    """The exit code of a job, followed to its end. SIGINT and SIGTERM cancel the job, SIGHUP leaves it alone."""
    follower = Follower(job, say)
    try:
        return follower.follow()
    except Terminated as ended:
        if ended.number == SIGHUP:
            with suppress(OSError):  # the terminal is gone
                follower.leave()
        else:
            follower.cancel()
        raise
    except KeyboardInterrupt:
        follower.cancel()
        raise


def _headline(state: JobState) -> str:
    if state.waiting:
        return f"{state.state} ({state.reason})" if state.reason else state.state
    nodes = f" on {state.nodes}" if state.nodes else ""
    return f"{state.state}{nodes}"


def _outcome(state: JobState) -> str:
    reason = "" if state.reason in (None, state.state) else f" ({state.reason})"
    code = "exit code unknown" if state.exit_code is None else f"exit code {state.exit_code}"
    return f"{state.state}{reason}, {code}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


GOOD = "COMPLETED"
ENDED = frozenset({
    *(GOOD, "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"),
    "REVOKED",
})  # fmt: skip
WAITING = frozenset({
    *("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"),
})  # fmt: skip
UNKNOWN = "UNKNOWN"
"""The state of a job that Slurm does not remember."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """State of a job, or of a task of an array, as Slurm reports it."""

    task: str
    """Number of the task; empty for a job that is no array, `1-3` for tasks that have not been started."""
    state: str = UNKNOWN
    """Such as `RUNNING`."""
    reason: str | None = None
    """Reason why it waits or ended, such as `Resources`."""
    nodes: str | None = None
    """Its nodes, such as `gpu[1-4]`."""
    exit_code: int | None = None
    """That of the batch script, 128 and the signal's number if a signal ended it."""
    restarts: int = 0
    """How often it has been requeued."""

    @property
    def tasks(self) -> int:
        """How many tasks of an array this describes: 5 for `1-4,7%2`."""
        ranges = [part.split("-") for part in self.task.partition("%")[0].split(",")]
        return sum(int(part[-1]) - int(part[0]) + 1 if all(map(str.isdigit, part)) else 1 for part in ranges)

    @property
    def ended(self) -> bool:
        """It has ended for good."""
        return self.state in ENDED or self.state == UNKNOWN

    @property
    def waiting(self) -> bool:
        """It waits for its nodes."""
        return self.state in WAITING


def job_states(job: str) -> tuple[JobState, ...]:
    """The states of a job or of the tasks of an array; none if Slurm does not know it. SlurmError without an answer."""
    try:
        listed = call("scontrol", "show", "job", job, "--oneliner")
    except SlurmError as error:
        if "Invalid job id" not in str(error):
            raise
        return remembered(job)
    return tuple(read_state(line) for line in listed.splitlines() if "JobId=" in line)


def read_state(line: str) -> JobState:
    """The state in a line of `scontrol show job --oneliner`."""
    values = fields(line)
    return JobState(
        task=values.get("ArrayTaskId", ""),
        state=values.get("JobState", UNKNOWN),
        reason=_known(values.get("Reason")),
        nodes=_known(values.get("NodeList")),
        exit_code=_exit_code(values.get("ExitCode", "")),
        restarts=int(values["Restarts"]) if values.get("Restarts", "").isdigit() else 0,
    )


def remembered(job: str) -> tuple[JobState, ...]:
    """States of a job in Slurm's accounting; empty on a cluster without accounting."""
    try:
        listed = call("sacct", "-X", "-n", "-P", "-j", job, "-o", "JobID,State,ExitCode,NodeList")
    except Exception:  # no sacct on this machine, or no accounting behind it
        return ()
    states = []
    for line in listed.splitlines():
        number, state, code, nodes = (*line.split("|"), "", "", "", "")[:4]
        if number.partition("_")[0] != job:
            continue
        task, word = number.partition("_")[2], (state.split() or [UNKNOWN])[0]  # `CANCELLED by 1000`
        states.append(JobState(task=task, state=word, nodes=_known(nodes), exit_code=_exit_code(code)))
    return tuple(states)


def _known(value: str | None) -> str | None:
    return None if value in (None, "", "(null)", "None", "Unknown", "N/A", "None assigned") else value


def _exit_code(text: str) -> int | None:
    code, _, number = text.partition(":")
    if not code.isdigit() or not number.isdigit():
        return None
    return int(code) or (128 + int(number) if int(number) else 0)
