"""Traces of a plan's pipeline stages, each made in a process of its own by the framework's `llmperf_trace_step`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from llmperf.errors import LlmperfError, UserError
from llmperf.estimating.analytic import analytic_trace
from llmperf.files import json_files
from llmperf.launching.agent import inherited_environment, python_module
from llmperf.measuring.processes import end_with_parent
from llmperf.runfolder.create import create_run_folder
from llmperf.types.estimate import TracerUse
from llmperf.types.layout import Layout
from llmperf.types.plan import Plan
from llmperf.types.tracing import StepTrace

TRACE_SECONDS = 300.0
"""Time limit of one process."""
ALL_STAGES = 4
"""With more pipeline stages, the second one stands for those in the middle: of these it holds most micro batches."""
RESULT = "trace.json"
MAX_REASON = 300


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
    processes = max(1, min(len(ranks), (os.cpu_count() or 1) // 2))
    stages: dict[int, StepTrace] = {}
    use: list[TracerUse] = []
    with tempfile.TemporaryDirectory(prefix="llmperf-trace-") as folder, ThreadPoolExecutor(processes) as pool:
        tasks = [
            (stage, rank, pool.submit(_trace, plan, rank, Path(folder) / str(rank), seconds, progress))
            for stage, rank in ranks.items()
        ]
        for stage, rank, task in tasks:
            trace, used = task.result()
            use.append(used)
            stages[stage] = trace or analytic_trace(plan, rank)
    reasons = dict.fromkeys(used.problem for used in use if used.problem is not None)
    notes = tuple(f"estimated by formulas, not by a trace: {reason}" for reason in reasons)
    return Traces(stages=stages, use=tuple(use), notes=notes)


def _trace(
    plan: Plan, rank: int, run: Path, seconds: float, progress: Callable[[str], None]
) -> tuple[StepTrace | None, TracerUse]:
    progress(f"tracing rank {rank} of {plan.layout.world_size} with {plan.spec.tuning.framework}")
    begin = time.monotonic()
    resident: int | None = None
    trace, problem = None, None
    try:
        resident = _ended(plan, rank, run, seconds)
        trace = json_files.load(run / RESULT, StepTrace)
    except (OSError, LlmperfError) as error:
        problem = " ".join(str(error).split())[:MAX_REASON]
    used = TracerUse(rank=rank, seconds=time.monotonic() - begin, peak_resident_bytes=resident, problem=problem)
    return trace, used


def _ended(plan: Plan, rank: int, run: Path, seconds: float) -> int | None:
    """Run the process of one rank; returns its peak memory. UserError with its reason if it fails."""
    create_run_folder(run, replace(plan, env={}, problems=()))
    words = [*python_module("llmperf.running.trace_rank", plan.interpreter), "--run-dir", str(run), "--rank", str(rank)]
    log = run / "logs" / "tracer.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=run,
            start_new_session=True,
            env={**inherited_environment(plan.interpreter), "LLMPERF_RUN_DIR": str(run)},
            preexec_fn=end_with_parent(signal.SIGKILL),
        )
        try:
            code, resident = _waited(process, seconds)
        finally:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.returncode = process.returncode if process.returncode is not None else -signal.SIGKILL
    if code is None:
        raise UserError(f"the tracer gave no answer in {seconds:g} s")
    if code != 0:
        raise UserError(_reason(log) or f"the tracer ended with exit status {code}")
    return resident


def _waited(process: subprocess.Popen[bytes], seconds: float) -> tuple[int | None, int | None]:
    """Exit code and peak memory of a process; None for the code if it does not end in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        child, status, usage = os.wait4(process.pid, os.WNOHANG)
        if child:
            process.returncode = os.waitstatus_to_exitcode(status)
            unit = 1 if sys.platform == "darwin" else 1024
            return process.returncode, usage.ru_maxrss * unit
        time.sleep(0.05)
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(process.pid, 0)
    return None, None


def _reason(log: Path) -> str:
    """The last line that the process printed."""
    text = log.read_bytes()[-(2**16) :].decode(errors="replace")
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
