"""Traces of ranks of a plan by `llmperf_trace_step`: `python -m llmperf_estimate.traced_ranks RUN RANK` for each."""

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

from llmperf import decode, encode_pretty, framework_answer, load_plan, read_bytes, write_bytes
from llmperf.errors import LlmperfError, UserError
from llmperf.launching import TAG, create_run_folder, end_with_parent, inherited_environment, python_module, sweep
from llmperf.types.plan import Plan
from llmperf.types.tracing import StepTrace

from llmperf_estimate.types import TracerUse

POLL_SECONDS = 0.05
MAX_REASON = 300
"""Characters of a reason that are shown."""
TRACE, LOG = "trace.json", "logs/tracer.log"


def trace_ranks(
    plan: Plan, ranks: Sequence[int], progress: Callable[[str], None], seconds: float
) -> tuple[tuple[StepTrace | None, TracerUse], ...]:
    """The framework's trace of a step of each of these ranks, if it gives one, within `seconds`, and what that took."""
    tag = f"trace-{secrets.token_hex(8)}"
    framework, known = plan.spec.tuning.framework, dict[int, tuple[StepTrace | None, TracerUse]]()
    with tempfile.TemporaryDirectory(prefix="llmperf-trace-") as folder:
        waiting, running = list(ranks), dict[int, tuple[subprocess.Popen[bytes], float]]()
        try:
            while waiting or running:
                while waiting and len(running) < max(1, (os.cpu_count() or 1) // 2):
                    rank = waiting.pop(0)
                    progress(f"tracing rank {rank} of {plan.layout.world_size} with {framework}")
                    running[rank] = _started(plan, rank, Path(folder) / str(rank), tag), time.monotonic()
                for rank, (process, begin) in list(running.items()):
                    ended = _ended(process, Path(folder) / str(rank), rank, time.monotonic() - begin, seconds)
                    if ended is not None:
                        known[rank] = ended
                        del running[rank]
                time.sleep(POLL_SECONDS)
        finally:
            sweep(tag)
    return tuple(known[rank] for rank in ranks)


def _started(plan: Plan, rank: int, run: Path, tag: str) -> subprocess.Popen[bytes]:
    create_run_folder(run, replace(plan, env={}, problems=()))
    with (run / LOG).open("wb") as output:
        return subprocess.Popen(
            [*python_module("llmperf_estimate.traced_ranks", plan.interpreter), str(run), str(rank)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=run,
            env={**inherited_environment(plan.interpreter), TAG: tag, "LLMPERF_RUN_DIR": str(run)},
            preexec_fn=end_with_parent(signal.SIGKILL),
        )


def _ended(
    process: subprocess.Popen[bytes], run: Path, rank: int, seconds: float, limit: float
) -> tuple[StepTrace | None, TracerUse] | None:
    """The trace or the problem of a process that has ended, or is ended by its limit; None while it runs."""
    child, status, usage = os.wait4(process.pid, os.WNOHANG)
    trace, resident, problem = None, None, f"the tracer gave no answer in {limit:g} s"
    if not child:
        if seconds < limit:
            return None
        process.kill()
        process.wait()
    else:
        process.returncode = os.waitstatus_to_exitcode(status)
        resident = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        try:
            if process.returncode != 0:
                text = (run / LOG).read_bytes()[-(2**16) :].decode(errors="replace")
                printed = [line.strip() for line in text.splitlines() if line.strip()]
                code = process.returncode
                raise UserError(printed[-1] if printed else f"the tracer ended with exit status {code}")
            trace, problem = decode(read_bytes(run / TRACE), StepTrace, TRACE), ""
        except (OSError, LlmperfError) as error:
            problem = " ".join(str(error).split())[:MAX_REASON]
    return trace, TracerUse(rank=rank, seconds=seconds, peak_resident_bytes=resident, problem=problem or None)


def _traced(run: Path, rank: int) -> int:
    """Trace one rank; a failure is the last line on standard error, with exit code 1."""
    plan = load_plan(run)
    framework = plan.spec.tuning.framework
    try:
        trace = framework_answer(framework, "llmperf_trace_step", StepTrace, plan=plan, rank=rank)
        if trace is None:
            raise UserError(f"{framework} cannot trace a step")
        write_bytes(run / TRACE, encode_pretty(trace))
    except LlmperfError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    code = _traced(Path(sys.argv[1]), int(sys.argv[2]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a library's threads and destructors could keep the process
