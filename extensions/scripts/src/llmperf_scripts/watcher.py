"""The rank process around an external script: `python -m llmperf.measuring.watcher --run-dir DIR`.

It starts the script as its only child, copies the script's output into the rank's log, and records what the framework's
`llmperf_parse_log` finds there. The clock of the measured window is this process's, not the script's.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

from llmperf.errors import RunFailed, UserError
from llmperf.files import json_files
from llmperf.measuring.processes import end_with_parent
from llmperf.measuring.rank_process import begin, fail, failure, leave, startup_modules
from llmperf.measuring.script_steps import HOOK, LineParser, Logged, ScriptSteps
from llmperf.measuring.worker import check_parameters, plugins_of
from llmperf.runfolder import filenames
from llmperf.runfolder.create import fill
from llmperf.runfolder.reader import RecordFile
from llmperf.runfolder.recorder import Moment, Recorder
from llmperf.types.logged import LoggedFacts, LoggedFailure, LoggedStep
from llmperf.types.plan import Plan, Script
from llmperf.types.records import Phase, PhaseRecord, RankRecord, StepClock, StepRecord

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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one rank's script to its end; returns its exit code. A failure is recorded and ends both at once."""
    run, rank = begin("llmperf.measuring.watcher", arguments)
    with Recorder(filenames.records_path(run, rank), run / filenames.RANK_RESERVE) as recorder:
        try:
            return Watcher(run, rank, recorder).run()
        except BaseException as error:
            fail(recorder, rank, error)


class Line(NamedTuple):
    """One line of output and the moment at which it arrived."""

    text: str
    moment: Moment


class ScriptOutput:
    """The standard output of a running process; `log` is the descriptor of the file that it is copied to."""

    def __init__(self, process: subprocess.Popen[bytes], log: int) -> None:
        assert process.stdout is not None
        self._process = process
        self._pipe: IO[bytes] = process.stdout
        self._log = log
        self._rest = b""
        self.ended = False
        """Whether the process has ended and all that it printed has been read."""

    def lines(self, seconds: float) -> Iterator[Line]:
        """The next lines; waits at most `seconds` for the first of them.

        The output ends with the process, even if a child of the process still holds the pipe open.
        """
        ended = self._process.poll() is not None
        until = time.monotonic() + seconds + DRAIN_SECONDS
        while select.select([self._pipe], [], [], 0.0 if ended else seconds)[0] and time.monotonic() < until:
            data = os.read(self._pipe.fileno(), READ_BYTES)
            moment = Moment.now()
            if not data:
                ended = True
                break
            copied = 0
            while copied < len(data):
                copied += os.write(self._log, data[copied:])
            yield from (Line(text, moment) for text in self._cut(data))
            if not ended:
                return
        if ended:
            self.ended = True
            yield from (Line(text, Moment.now()) for text in self._cut(b"\n") if text)

    def _cut(self, data: bytes) -> list[str]:
        """Complete lines. A carriage return ends a line too: progress bars use it."""
        *whole, rest = (self._rest + data).replace(b"\r", b"\n").split(b"\n")
        self._rest = rest[-MAX_LINE_BYTES:]
        return [line[-MAX_LINE_BYTES:].decode("utf-8", "replace") for line in whole]


class Watcher:
    """One rank's script, from its start to the rank's last record."""

    def __init__(self, run: Path, rank: int, recorder: Recorder) -> None:
        self._run = run
        self._rank = rank
        self._recorder = recorder
        self._peak_bytes: int | None = None
        self._packages: dict[str, str] = {}
        self._last_record: RankRecord | None = None
        """Of the reporting rank, if that is another."""
        self._failed = False

    def run(self) -> int:
        """Start the script, follow it to its end; returns its exit code."""
        self._enter("starting")
        plan = json_files.load(self._run / filenames.PLAN, Plan)
        self._enter("loading")
        plugins, script = plugins_of(plan), plan.worker.script
        if script is None:
            raise UserError("plan.json: script: expected the command of an external script, found none")
        parser = LineParser(plugins)
        process = start(script, self._run)
        began = Moment.now()
        self._enter("building")
        steps = ScriptSteps(plan, self._rank, self._recorder, self._enter, began, parser.who)
        reports = script.step_rank == self._rank
        reporter = None if reports else RecordFile(filenames.records_path(self._run, script.step_rank))
        output = ScriptOutput(process, sys.stdout.fileno())
        while not output.ended:
            for line in output.lines(POLL_SECONDS):
                for logged in parser.parse(line.text):
                    self._take(logged, line, steps if reports else None, plan, parser.who)
            if reporter is not None:
                self._take_records(steps, reporter)
        if code := process.wait() or self._failed:  # this process ends as its script did, so that the agent sees it
            if code < 0:
                with suppress(OSError, ValueError):  # SIGKILL and SIGSTOP have no handler to reset
                    signal.signal(-code, signal.SIG_DFL)
                os.kill(os.getpid(), -code)
                signal.pause()
            leave(code)
        if reporter is None and steps.done == 0:
            raise RunFailed(f"{parser.who}: {HOOK} found no step in the {parser.count} lines of rank {self._rank}")
        if reporter is None:
            window = steps.window()
            self._finish(window.steps, window.tokens, window.seconds, steps.clock)
        else:
            last = self._await_last(steps, reporter, time.monotonic() - began.monotonic)
            self._finish(last.measured_steps, 0, last.window_seconds, last.step_clock)
        return 0

    def _take(self, logged: Logged, line: Line, steps: ScriptSteps | None, plan: Plan, who: str) -> None:
        """Use one answer of the plugin; `steps` is None on ranks that report none."""
        if isinstance(logged, LoggedFacts):
            if logged.parameters is not None:
                check_parameters(logged.parameters, plan, f"{who}: the script")
            if logged.peak_memory_bytes is not None:
                self._peak_bytes = max(self._peak_bytes or 0, logged.peak_memory_bytes)
            self._packages.update(logged.packages)
        elif isinstance(logged, LoggedStep) and steps is not None:
            steps.take_line(logged, line.moment)
        elif isinstance(logged, LoggedFailure) and not self._failed:
            self._failed = True
            record = failure(self._rank, line.moment.at, logged.exception, logged.message, logged.traceback)
            self._recorder.write(record)

    def _take_records(self, steps: ScriptSteps, reporter: RecordFile) -> None:
        for record in reporter.new():
            if isinstance(record, StepRecord):
                steps.take_record(record)
            elif isinstance(record, RankRecord):
                self._last_record = record

    def _await_last(self, steps: ScriptSteps, reporter: RecordFile, ran_seconds: float) -> RankRecord:
        """The last record of the reporting rank. If that rank fails, the agent ends this one.

        If this rank's script ended before the last step, this rank ended the run: it fails by itself after a while.
        """
        ended = time.time()
        limit = time.monotonic() + EARLY_SECONDS + ran_seconds / max(1, steps.done)
        while self._last_record is None:
            time.sleep(POLL_SECONDS)
            self._take_records(steps, reporter)
            if steps.missing and time.monotonic() > limit:
                name = f"{RunFailed.__module__}.{RunFailed.__qualname__}"
                self._recorder.write(failure(self._rank, ended, name, steps.early_end(), ""))
                print(steps.early_end(), flush=True)
                leave(1)
        return self._last_record

    def _finish(self, steps: int, tokens: int, seconds: float, clock: StepClock) -> None:
        self._recorder.write(
            RankRecord(
                rank=self._rank,
                measured_steps=steps,
                measured_tokens=tokens,
                window_seconds=seconds,
                step_clock=clock,
                peak_memory_bytes=self._peak_bytes,
                evaluation={},
                packages=self._packages,
                startup_modules=startup_modules(),
            )
        )
        self._enter("done")

    def _enter(self, phase: Phase, moment: Moment | None = None) -> None:
        at, monotonic = moment or Moment.now()
        self._recorder.write(PhaseRecord(rank=self._rank, phase=phase, at=at, monotonic=monotonic))


def start(script: Script, run: Path) -> subprocess.Popen[bytes]:
    """Start a rank's script, which ends with this process; UserError if it cannot be started.

    SIGUSR1, the request for stacks, is forwarded to it. It starts with that signal ignored, which would end it
    otherwise.
    """
    values = {"run_dir": run, "python": sys.executable}
    values |= {name: os.environ.get(name.upper(), "") for name in PLACEHOLDERS}
    bind = end_with_parent(signal.SIGKILL)

    def prepare() -> None:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        if bind is not None:
            bind()

    argv = [fill(word, values) for word in script.command]
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


if __name__ == "__main__":
    leave(main())
