"""Traces of ranks of a plan, each made in a process of its own by the framework's `llmperf_trace_step`.

That process is `python -m llmperf.running.step_traces RUN RANK`, which writes `trace.json` into the folder.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from llmperf.errors import LlmperfError, UserError
from llmperf.files import json_files
from llmperf.launching.agent import inherited_environment, python_module
from llmperf.measuring.processes import TAG, end_with_parent, sweep
from llmperf.plugins.discovery import find
from llmperf.plugins.loading import Plugins
from llmperf.runfolder import filenames
from llmperf.runfolder.create import create_run_folder, load_plan
from llmperf.types.plan import Plan
from llmperf.types.tracing import StepTrace, TracerUse

HOOK = "llmperf_trace_step"
POLL_SECONDS = 0.05
MAX_REASON = 300
"""Characters of a reason that are shown."""


def trace_ranks(
    plan: Plan, ranks: Sequence[int], progress: Callable[[str], None], seconds: float
) -> tuple[tuple[StepTrace | None, TracerUse], ...]:
    """The framework's trace of a step of each of these ranks, if it gives one, and what that took.

    `progress` is called with a line when a process begins; `seconds` is the time limit of each.
    """
    tag = f"trace-{secrets.token_hex(8)}"
    with tempfile.TemporaryDirectory(prefix="llmperf-trace-") as folder:
        tracers = [_Tracer(plan, rank, Path(folder) / str(rank), tag, seconds) for rank in ranks]
        waiting, running = list(tracers), list[_Tracer]()
        try:
            while waiting or running:
                while waiting and len(running) < max(1, (os.cpu_count() or 1) // 2):
                    running.append(waiting.pop(0))
                    framework = plan.spec.tuning.framework
                    progress(f"tracing rank {running[-1].rank} of {plan.layout.world_size} with {framework}")
                    running[-1].start()
                running = [tracer for tracer in running if not tracer.ended()]
                time.sleep(POLL_SECONDS)
        finally:
            sweep(tag)
        return tuple((tracer.trace, tracer.use()) for tracer in tracers)


class _Tracer:
    """The process that traces one rank."""

    def __init__(self, plan: Plan, rank: int, run: Path, tag: str, seconds: float) -> None:
        self.rank = rank
        self.trace: StepTrace | None = None
        self.problem: str | None = None
        self._plan = plan
        self._run = run
        self._tag = tag
        self._limit = seconds
        self._seconds = 0.0
        self._resident: int | None = None
        self._begin = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    def use(self) -> TracerUse:
        """Resources that it took."""
        return TracerUse(
            rank=self.rank, seconds=self._seconds, peak_resident_bytes=self._resident, problem=self.problem
        )

    def start(self) -> None:
        """Start the process."""
        create_run_folder(self._run, replace(self._plan, env={}, problems=()))
        interpreter = self._plan.interpreter
        module = python_module("llmperf.running.step_traces", interpreter)
        environment = {**inherited_environment(interpreter), TAG: self._tag, "LLMPERF_RUN_DIR": str(self._run)}
        self._begin = time.monotonic()
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [*module, str(self._run), str(self.rank)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._run,
                env=environment,
                preexec_fn=end_with_parent(signal.SIGKILL),
            )

    @property
    def _log(self) -> Path:
        return self._run / filenames.LOGS / "tracer.log"

    def ended(self) -> bool:
        """Check whether the process has ended, or was ended by its limit; its trace or problem is then known."""
        assert self._process is not None
        self._seconds = time.monotonic() - self._begin
        child, status, usage = os.wait4(self._process.pid, os.WNOHANG)
        if not child:
            if self._seconds < self._limit:
                return False
            self._process.kill()
            self._process.wait()
            self.problem = f"the tracer gave no answer in {self._limit:g} s"
            return True
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self._resident = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        try:
            if self._process.returncode != 0:
                text = self._log.read_bytes()[-(2**16) :].decode(errors="replace")
                printed = [line.strip() for line in text.splitlines() if line.strip()]
                code = self._process.returncode
                raise UserError(printed[-1] if printed else f"the tracer ended with exit status {code}")
            self.trace = json_files.load(self._run / filenames.TRACE, StepTrace)
        except (OSError, LlmperfError) as error:
            self.problem = " ".join(str(error).split())[:MAX_REASON]
        return True


def _traced(run: Path, rank: int) -> int:
    """Trace one rank; a failure is the last line on standard error, with exit code 1."""
    plan = load_plan(run)
    try:
        plugins = Plugins([find("framework", plan.spec.tuning.framework)])
        if not plugins.answers(HOOK):
            raise UserError(f"{plan.spec.tuning.framework} cannot trace a step")
        trace = plugins.answer(HOOK, StepTrace, plan=plan, rank=rank)
    except LlmperfError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 1
    json_files.write_bytes(run / filenames.TRACE, json_files.encode(trace))
    return 0


if __name__ == "__main__":
    code = _traced(Path(sys.argv[1]), int(sys.argv[2]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a library's threads and destructors could keep the process
