"""The task of a rank that runs an external script.

The rank starts the script as its only child, copies the script's output into its own log, and records what the
framework's `llmperf_parse_log` finds there. The clock of the measured window is the rank's, not the script's.
"""

from __future__ import annotations

import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from llmperf.errors import RunFailed, UserError
from llmperf.launching import Moment, check_parameters, end_with_parent, startup_modules
from llmperf.types import (
    FailureRecord,
    LoggedFacts,
    LoggedFailure,
    LoggedStep,
    RankAtTask,
    RankRecord,
    Script,
    StepRecord,
)

from llmperf_scripts.steps import HOOK, Logged, ScriptSteps, logged_in

READ_BYTES = 2**16
DRAIN_SECONDS = 1.0
"""Seconds for which output is read after the process has ended. A child that outlives it may hold the pipe open."""
MAX_LINE_BYTES = 2**16
"""Only the end of a longer line is kept: no line that reports a step is that long."""
POLL_SECONDS = 0.2
EARLY_SECONDS = 5.0
"""After a rank's script has ended with status 0, the reporting rank has this long, plus the time of a step, to report
the last step. In data, tensor and pipeline parallel training no rank can be more than a step ahead."""
PLACEHOLDERS = ("rank", "local_rank", "world_size", "local_world_size", "node_rank", "master_addr", "master_port")


def output_of(process: subprocess.Popen[bytes], log: int) -> Iterator[tuple[list[str], Moment]]:
    """The next lines of a process, copied to `log`, and when they came; none after POLL_SECONDS, or its end."""
    assert process.stdout is not None
    pipe, rest, until = process.stdout.fileno(), b"", math.inf
    while True:
        ended = process.poll() is not None
        until = min(until, time.monotonic() + DRAIN_SECONDS) if ended else until
        ready = select.select([pipe], [], [], 0.0 if ended else POLL_SECONDS)[0] and time.monotonic() < until
        data, moment = os.read(pipe, READ_BYTES) if ready else b"", Moment.now()
        copied = 0
        while copied < len(data):
            copied += os.write(log, data[copied:])
        *whole, rest = (rest + data).replace(b"\r", b"\n").split(b"\n")
        rest = rest[-MAX_LINE_BYTES:]
        yield [line[-MAX_LINE_BYTES:].decode("utf-8", "replace") for line in whole], moment
        if not data and (ended or ready):
            break
    if rest:
        yield [rest.decode("utf-8", "replace")], Moment.now()


def follow_script(rank: RankAtTask) -> int:
    """Start the rank's script and follow it to the rank's last record; the status with which the rank ends."""
    script = rank.plan.worker.script
    assert script is not None
    return Watcher(rank, script).run(start(script, rank.run))


class Watcher:
    """One rank's script, from its start to the rank's last record."""

    def __init__(self, rank: RankAtTask, script: Script) -> None:
        self._rank = rank
        self._began = Moment.now()
        self._who = rank.who(HOOK)
        self._steps = ScriptSteps(rank.plan, rank.rank, rank.record, rank.enter, self._began, self._who)
        self._reports = script.step_rank == rank.rank
        self._reported = rank.follow(script.step_rank)
        self._peak_bytes: int | None = None
        self._packages: dict[str, str] = {}
        self._last_record: RankRecord | None = None
        """Of the reporting rank, if that is another."""
        self._failed = False

    def run(self, process: subprocess.Popen[bytes]) -> int:
        """Follow the script to its end; returns its exit code."""
        steps, lines = self._steps, 0
        for new, arrived in output_of(process, sys.stdout.fileno()):
            lines += len(new)
            for line in new:
                for logged in logged_in(line, self._rank.answers, self._who):
                    self._take(logged, arrived)
            if not self._reports:
                self._take_reported()
        if code := process.wait() or self._failed:  # this process ends as its script did, so that the agent sees it
            if code < 0:
                with suppress(OSError, ValueError):  # SIGKILL and SIGSTOP have no handler to reset
                    signal.signal(-code, signal.SIG_DFL)
                os.kill(os.getpid(), -code)
                signal.pause()
            return int(code)
        if self._reports:
            if steps.done == 0:
                raise RunFailed(f"{self._who}: {HOOK} found no step in the {lines} lines of rank {self._rank.rank}")
            measured, tokens, seconds = steps.window()
            clock = steps.clock
        else:
            last = self._await_last()
            if last is None:
                return 1
            measured, tokens, seconds, clock = last.measured_steps, 0, last.window_seconds, last.step_clock
        self._rank.record(
            RankRecord(
                rank=self._rank.rank,
                measured_steps=measured,
                measured_tokens=tokens,
                window_seconds=seconds,
                step_clock=clock,
                peak_memory_bytes=self._peak_bytes,
                evaluation={},
                packages=self._packages,
                startup_modules=startup_modules(),
            )
        )
        return 0

    def _take(self, logged: Logged, arrived: Moment) -> None:
        """Use one answer of the plugin; only the reporting rank records steps of its own output."""
        if isinstance(logged, LoggedFacts):
            if logged.parameters is not None:
                check_parameters(logged.parameters, self._rank.plan, f"{self._who}: the script")
            if logged.peak_memory_bytes is not None:
                self._peak_bytes = max(self._peak_bytes or 0, logged.peak_memory_bytes)
            self._packages.update(logged.packages)
        elif isinstance(logged, LoggedStep):
            if self._reports:
                self._steps.take_line(logged, arrived)
        elif not self._failed:
            self._failed = True
            self._record_failure(arrived.at, logged)

    def _record_failure(self, at: float, failure: LoggedFailure) -> None:
        self._rank.record(
            FailureRecord(
                rank=self._rank.rank,
                at=at,
                exception=failure.exception,
                message=failure.message,
                traceback=failure.traceback,
            )
        )

    def _take_reported(self) -> None:
        for record in self._reported():
            if isinstance(record, StepRecord):
                self._steps.take_record(record)
            elif isinstance(record, RankRecord):
                self._last_record = record

    def _await_last(self) -> RankRecord | None:
        """The last record of the reporting rank; None if this rank's script ended before the last step."""
        steps, ended = self._steps, Moment.now()
        limit = ended.monotonic + EARLY_SECONDS + (ended.monotonic - self._began.monotonic) / max(1, steps.done)
        while self._last_record is None:
            time.sleep(POLL_SECONDS)
            self._take_reported()
            if steps.missing and time.monotonic() > limit:
                name = f"{RunFailed.__module__}.{RunFailed.__qualname__}"
                self._record_failure(ended.at, LoggedFailure(exception=name, message=steps.early_end()))
                print(steps.early_end(), flush=True)
                return None
        return self._last_record


def start(script: Script, run: Path) -> subprocess.Popen[bytes]:
    """Start a rank's script, which ends with this process and ignores SIGUSR1; UserError if it cannot be started."""
    values = {"run_dir": run, "python": sys.executable}
    values |= {name: os.environ.get(name.upper(), "") for name in PLACEHOLDERS}
    bind = end_with_parent(signal.SIGKILL)

    def prepare() -> None:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        if bind is not None:
            bind()

    argv = list(script.command)
    for name, value in values.items():
        argv = [word.replace(f"{{{name}}}", str(value)) for word in argv]
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(int(store),) if (store := os.environ.get("LLMPERF_STORE_FD")) else (),
            preexec_fn=prepare,
        )
    except OSError as error:
        raise UserError(f"plan.json: script.command: cannot start {argv[0]}: {error.strerror}") from None
    signal.signal(signal.SIGUSR1, lambda *_: process.send_signal(signal.SIGUSR1))
    return process
