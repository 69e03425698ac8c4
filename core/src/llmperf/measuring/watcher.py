"""The rank process around an external script: `python -m llmperf.measuring.watcher --run-dir DIR`.

It starts the script as its only child, copies what that prints into the rank's log, and makes records of what the
framework's `llmperf_parse_log` finds in it. The stopwatch of the measured window is this process's, not the script's.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from llmperf.errors import RunFailed, UserError
from llmperf.files import json_files
from llmperf.launching.agent import fill
from llmperf.launching.processes import end_with_parent
from llmperf.measuring.moment import Moment
from llmperf.measuring.rank_exit import fail, failure, leave
from llmperf.measuring.script_lines import HOOK, ScriptLines, Told
from llmperf.measuring.script_output import Line, Output
from llmperf.measuring.script_steps import ScriptSteps
from llmperf.measuring.worker import plugins_of
from llmperf.runfolder import filenames
from llmperf.runfolder.reader import RecordTail
from llmperf.runfolder.recorder import Recorder
from llmperf.types.plan import Plan, Script
from llmperf.types.records import (
    LoggedFacts,
    LoggedFailure,
    LoggedStep,
    Phase,
    PhaseRecord,
    RankRecord,
    StepRecord,
)

POLL_SECONDS = 0.2
EARLY_SECONDS = 5.0
"""After a script has ended well, the rank that tells of the steps has this long, and the time of a step, to tell of the
last. In data, tensor and pipeline parallel training no rank can be more than a step ahead."""
PLACEHOLDERS = ("rank", "local_rank", "world_size", "local_world_size", "node_rank", "master_addr", "master_port")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one rank's script to its end; its exit code. A failure is recorded and ends both at once."""
    parser = argparse.ArgumentParser(prog="llmperf.measuring.watcher")
    parser.add_argument("--run-dir", type=Path, required=True)
    run = parser.parse_args(arguments).run_dir
    rank = int(os.environ["RANK"])
    with Recorder(filenames.records_path(run, rank), run / filenames.RANK_RESERVE) as recorder:
        try:
            return Watcher(run, rank, recorder).run()
        except BaseException as error:
            fail(recorder, rank, error)


class Watcher:
    """One rank's script from its start to the rank's last record."""

    def __init__(self, run: Path, rank: int, recorder: Recorder) -> None:
        self._run = run
        self._rank = rank
        self._recorder = recorder
        self._peak: int | None = None
        self._packages: dict[str, str] = {}
        self._told: RankRecord | None = None
        self._failed = False
        self._phase: Phase = "starting"

    def run(self) -> int:
        """Start the script, follow it, conclude; its exit code."""
        self._enter("starting")
        plan = json_files.load(self._run / filenames.PLAN, Plan)
        self._enter("loading")
        plugins, script = plugins_of(plan), plan.script
        if script is None:
            raise UserError("plan.json: script: expected the command of an external script, found none")
        process = start(script, self._run)
        self._enter("building")
        began = time.monotonic()
        steps = ScriptSteps(plan, self._rank, self._recorder, self._enter)
        told = (
            None if script.step_rank == self._rank else RecordTail(filenames.records_path(self._run, script.step_rank))
        )
        lines = ScriptLines(plugins)
        self._follow(Output(process, sys.stdout.fileno()), lines, steps, told)
        if code := process.wait() or self._failed:
            end_alike(code)
        if told is None and steps.done == 0:
            raise RunFailed(f"{lines.who}: {HOOK} found no step in the {lines.count} lines of rank {self._rank}")
        if told is None:
            window = steps.window()
            self._finish(window.steps, window.tokens, window.seconds)
        else:
            last = self._last_word(steps, told, time.monotonic() - began)
            self._finish(last.measured_steps, 0, last.window_seconds)
        return 0

    def _follow(self, output: Output, lines: ScriptLines, steps: ScriptSteps, told: RecordTail | None) -> None:
        while not output.over:
            for line in output.lines(POLL_SECONDS):
                self._take(lines.read(line.text), line, steps, told is None)
            if told is not None:
                self._take_told(steps, told)

    def _take(self, found: Told | None, line: Line, steps: ScriptSteps, tells: bool) -> None:
        if isinstance(found, LoggedFacts):
            if found.peak_memory_bytes is not None:
                self._peak = max(self._peak or 0, found.peak_memory_bytes)
            self._packages.update(found.packages)
        elif isinstance(found, LoggedStep) and tells:
            steps.take_line(found, line)
        elif isinstance(found, LoggedFailure) and not self._failed:
            self._failed = True
            self._recorder.write(failure(self._rank, line.moment.at, found.exception, found.message, found.traceback))

    def _take_told(self, steps: ScriptSteps, told: RecordTail) -> None:
        for record in told.new():
            if isinstance(record, StepRecord):
                steps.take_record(record)
            elif isinstance(record, RankRecord):
                self._told = record

    def _last_word(self, steps: ScriptSteps, told: RecordTail, ran_seconds: float) -> RankRecord:
        """The last record of the rank that tells of the steps. If that one fails, the agent ends this one.

        It ends by itself where this rank's script has left before the last step, and so is what ended the run.
        """
        ended = time.time()
        limit = time.monotonic() + EARLY_SECONDS + ran_seconds / max(1, steps.done)
        while self._told is None:
            time.sleep(POLL_SECONDS)
            self._take_told(steps, told)
            if steps.missing and time.monotonic() > limit:
                done = f"after {steps.done} of {steps.done + steps.missing} steps"
                message = f"the script of rank {self._rank} ended with status 0 while {self._phase}, {done}"
                name = f"{RunFailed.__module__}.{RunFailed.__qualname__}"
                self._recorder.write(failure(self._rank, ended, name, message, ""))
                print(message, flush=True)
                leave(1)
        return self._told

    def _finish(self, steps: int, tokens: int, seconds: float) -> None:
        self._recorder.write(
            RankRecord(
                rank=self._rank,
                measured_steps=steps,
                measured_tokens=tokens,
                window_seconds=seconds,
                peak_memory_bytes=self._peak,
                evaluation={},
                packages=self._packages,
            )
        )
        self._enter("done")

    def _enter(self, phase: Phase, moment: Moment | None = None) -> None:
        self._phase = phase
        at, monotonic = moment or Moment.now()
        self._recorder.write(PhaseRecord(rank=self._rank, phase=phase, at=at, monotonic=monotonic))


def start(script: Script, run: Path) -> subprocess.Popen[bytes]:
    """Start a rank's script, bound to this process's life; UserError if it cannot be started.

    A request for stacks (SIGUSR1) is passed on to it; it is born deaf to that signal, which would end it otherwise.
    """
    values = {"run_dir": run, **{name: os.environ.get(name.upper(), "") for name in PLACEHOLDERS}}
    bind = end_with_parent(signal.SIGKILL)

    def born() -> None:
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
            preexec_fn=born,
        )
    except OSError as error:
        raise UserError(f"plan.json: script.command: cannot start {argv[0]}: {error.strerror}") from None
    signal.signal(signal.SIGUSR1, lambda *_: process.send_signal(signal.SIGUSR1))
    return process


def end_alike(code: int) -> NoReturn:
    """End this process as its script has ended, so that the agent sees how."""
    if code < 0:
        with suppress(OSError, ValueError):  # SIGKILL and SIGSTOP have no handler to take away
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
        signal.pause()
    leave(code)


if __name__ == "__main__":
    leave(main())
