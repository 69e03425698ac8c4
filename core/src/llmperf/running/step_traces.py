"""Traces of a plan's pipeline stages, each made in a process of its own by the framework's `llmperf_trace_step`."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from llmperf.errors import LlmperfError, UserError
from llmperf.estimating.analytic import analytic_trace, wrong_trace
from llmperf.files import json_files
from llmperf.launching.agent import inherited_environment, python_module
from llmperf.measuring.processes import TAG, end_with_parent, sweep
from llmperf.runfolder import filenames
from llmperf.runfolder.create import create_run_folder
from llmperf.types.estimate import TracerUse
from llmperf.types.layout import Layout
from llmperf.types.plan import Plan
from llmperf.types.tracing import StepTrace

TRACE_SECONDS = 300.0
"""Time limit of one process."""
ALL_STAGES = 4
"""With more pipeline stages than these, the second stands for all in the middle: it holds the most micro batches."""
POLL_SECONDS = 0.05
MAX_REASON = 300
"""Characters of a reason that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """The traced stages by their index, and what tracing took."""

    stages: Mapping[int, StepTrace]
    use: tuple[TracerUse, ...]
    notes: tuple[str, ...]


def traced_stages(layout: Layout) -> dict[int, int]:
    """The first rank of each pipeline stage that is traced, by the stage's index."""
    stages = layout.pipeline_parallel
    chosen = range(stages) if stages <= ALL_STAGES else (0, 1, stages - 1)
    ranks = range(layout.world_size)
    return {stage: next(rank for rank in ranks if layout.coordinate(rank, "pipeline") == stage) for stage in chosen}


def analytic_traces(plan: Plan) -> Traces:
    """The stages by formulas alone, within milliseconds."""
    ranks = traced_stages(plan.layout)
    return Traces(stages={stage: analytic_trace(plan, rank) for stage, rank in ranks.items()}, use=(), notes=())


def step_traces(plan: Plan, progress: Callable[[str], None], seconds: float = TRACE_SECONDS) -> Traces:
    """The traces of all stages; by formulas, with a note, where the framework has no trace or fails.

    `progress` is called with a line when a process begins.
    """
    ranks = traced_stages(plan.layout)
    tag = f"trace-{secrets.token_hex(8)}"
    with tempfile.TemporaryDirectory(prefix="llmperf-trace-") as folder:
        tracers = [Tracer(plan, rank, Path(folder) / str(rank), tag, seconds) for rank in ranks.values()]
        waiting, running = list(tracers), list[Tracer]()
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
        stages = {
            stage: tracer.trace or analytic_trace(plan, tracer.rank)
            for stage, tracer in zip(ranks, tracers, strict=True)
        }
    reasons = dict.fromkeys(tracer.problem for tracer in tracers if tracer.problem is not None)
    notes = tuple(f"estimated by formulas, not by a trace: {reason}" for reason in reasons)
    return Traces(stages=stages, use=tuple(tracer.use() for tracer in tracers), notes=notes)


class Tracer:
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
        """What it took."""
        return TracerUse(
            rank=self.rank, seconds=self._seconds, peak_resident_bytes=self._resident, problem=self.problem
        )

    def start(self) -> None:
        """Start the process."""
        create_run_folder(self._run, replace(self._plan, env={}, problems=()))
        interpreter = self._plan.interpreter
        module = python_module("llmperf.running.trace_rank", interpreter)
        environment = {**inherited_environment(interpreter), TAG: self._tag, "LLMPERF_RUN_DIR": str(self._run)}
        self._begin = time.monotonic()
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [*module, "--run-dir", str(self._run), "--rank", str(self.rank)],
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
        """Whether the process has ended, or was ended because its time is over; its trace or problem is then known."""
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
                raise UserError(self._last_line() or f"the tracer ended with exit status {self._process.returncode}")
            trace = json_files.load(self._run / filenames.TRACE, StepTrace)
            if (wrong := wrong_trace(trace, self._plan, self.rank)) is not None:
                raise UserError(f"{self._plan.spec.tuning.framework}: llmperf_trace_step: {wrong}")
            self.trace = trace
        except (OSError, LlmperfError) as error:
            self.problem = " ".join(str(error).split())[:MAX_REASON]
        return True

    def _last_line(self) -> str:
        """The last line that the process printed."""
        text = self._log.read_bytes()[-(2**16) :].decode(errors="replace")
        return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
