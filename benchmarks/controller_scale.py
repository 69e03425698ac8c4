"""How the controller copes with many ranks and many steps, on records that a few processes write in the real format.

    ./dev python benchmarks/controller_scale.py --ranks 4096 --steps 60,240
    ./dev python benchmarks/controller_scale.py --ranks 1 --steps 100000,1000000

For each number of steps: records per second that the controller follows while they are written, and from files that
are there already; the seconds from the last record to the checked result; the peak of memory; the size of the result.
Memory is flat if the two numbers of steps give the same peak.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from llmperf.files import json_files
from llmperf.launching.controller import LOOK_SECONDS, TICK_SECONDS
from llmperf.launching.progress import Follower
from llmperf.planning.build import plan_run
from llmperf.planning.ready import ready
from llmperf.planning.states import Planned, Selection, Site
from llmperf.plugins.loading import Plugins
from llmperf.results.run_result import build_result
from llmperf.runfolder import filenames
from llmperf.runfolder.contents import read_run
from llmperf.runfolder.create import create_run_folder, release
from llmperf.runfolder.endings import Ending
from llmperf.runfolder.reader import Recorder
from llmperf.running.measure import check
from llmperf.types import PhaseRecord, Plan, RankRecord, StepRecord
from llmperf.validation.run_folder import recorded_findings

STEP_SECONDS = 0.5
BEGIN = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
PER_NODE = 8


def write_records(run: Path, ranks: Sequence[int]) -> None:
    """Write the records of some ranks, step after step, as fast as this process can."""
    plan = json_files.load(run / filenames.PLAN, Plan)
    contract, tokens = plan.spec.contract, plan.batch.tokens_per_step // plan.layout.world_size
    recorders = [Recorder(filenames.records_path(run, rank)) for rank in ranks]
    draws = random.Random(ranks[0])
    now = started = time.monotonic()

    def enter(phase: Any, monotonic: float) -> None:
        for rank, recorder in zip(ranks, recorders, strict=True):
            at = 1.8e9 + monotonic - started
            recorder.write(PhaseRecord(rank=rank, phase=phase, at=at, monotonic=monotonic))

    enter("warming up", now)
    begin = now
    for step in range(1, contract.steps + 1):
        if step == contract.warmup_steps + 1:
            begin = now
            enter("measuring", begin)
        now += STEP_SECONDS
        for rank, recorder in zip(ranks, recorders, strict=True):
            recorder.write(
                StepRecord(
                    rank=rank,
                    step=step,
                    measured=step > contract.warmup_steps,
                    at=1.8e9 + STEP_SECONDS * step,
                    monotonic=now,
                    step_seconds=STEP_SECONDS - 0.001 * draws.random(),
                    tokens=tokens,
                    loss=2 + 8 * math.exp(-step / 50) + 0.1 * draws.random(),
                    grad_norm=draws.random(),
                )
            )
    enter("evaluating", now)
    for rank, recorder in zip(ranks, recorders, strict=True):
        steps = contract.steps - contract.warmup_steps
        recorder.write(
            RankRecord(
                rank=rank,
                measured_steps=steps,
                measured_tokens=steps * tokens,
                window_seconds=now - begin,
                peak_memory_bytes=2**34,
                evaluation={},
                packages={"torch": "2.15.0"},
            )
        )
    enter("done", now)


def followed(run: Path, plan: Plan, writers: Sequence[subprocess.Popen[bytes]]) -> dict[str, float]:
    """Follow the ranks as the controller does, until nothing is written any more."""
    follower = Follower(run, plan)
    began, cpu, steps = time.monotonic(), time.process_time(), 0
    while True:
        ended = all(writer.poll() is not None for writer in writers)
        moved = follower.look(LOOK_SECONDS)
        progress = follower.progress()
        steps += len(follower.take_steps())
        if ended and not moved:
            break
        if not moved:
            time.sleep(TICK_SECONDS)
    if steps != plan.spec.contract.steps or progress.phase != "done" or follower.problem:
        sys.exit(f"followed {steps} steps, phase {progress.phase}, problem {follower.problem}")
    records = steps * plan.layout.world_size
    return {
        "records/s": records / (time.monotonic() - began),
        "records/s of CPU": records / (time.process_time() - cpu),
        "peak MiB": peak_mib(),
    }


def peak_mib() -> float:
    """Most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def result_of(run: Path) -> dict[str, float]:
    """Cost of the controller's work after the last record, up to the checked result."""
    began, cpu = time.monotonic(), time.process_time()
    result = build_result(run)
    json_files.save(run / filenames.RESULT, result)
    built = time.monotonic()
    result = check(result, run, Plugins(), recorded_findings(read_run(run)))
    if result.status != "complete":
        sys.exit(f"the run is {result.status}: {result.failure}")
    problems = [finding for finding in result.findings if finding.severity == "error"]
    for finding in problems:
        print(f"{finding.code} {finding.path}: {finding.message}", file=sys.stderr)
    return {
        "result s": built - began,
        "checked s": time.monotonic() - began,
        "checked s of CPU": time.process_time() - cpu,
        "result MB": (run / filenames.RESULT).stat().st_size / 1e6,
        "errors": len(problems),
        "peak MiB": peak_mib(),
    }


def in_process(*words: str) -> dict[str, float]:
    """Run a part of this file in a process of its own, so that its peak of memory is its own."""
    output = subprocess.run([sys.executable, __file__, *words], check=True, stdout=subprocess.PIPE).stdout
    figures: dict[str, float] = json.loads(output)
    return figures


def simulate(run: Path, ranks: int, steps: int, writers: int, as_json: bool) -> None:
    """Measure one size and print a line for each part."""
    shape = f"{max(1, ranks // PER_NODE)}x{min(ranks, PER_NODE)}"
    settings = (f"global_batch={ranks}", f"steps={steps}", "warmup_steps=2")
    planned = ready(plan_run(Selection("llama2_7b_pretrain_zero", settings=settings), Site(on=f"H800:{shape}")))
    if not isinstance(planned, Planned):
        sys.exit(f"{planned.problems[0].where}: {planned.problems[0].message}")
    create_run_folder(run, replace(planned.plan, created=BEGIN.isoformat(timespec="seconds")))
    release(run)
    at = BEGIN + datetime.timedelta(seconds=STEP_SECONDS * steps + 60)
    ending = Ending(cause="ended", at=at.isoformat(timespec="seconds"), agents=(0,) * max(1, ranks // PER_NODE))
    json_files.save(run / filenames.ENDING, ending)
    parts = {
        "followed while written": in_process("--follow", str(run), "--ranks", str(ranks), "--writers", str(writers)),
        "followed from files": in_process("--follow", str(run), "--ranks", str(ranks), "--writers", "0"),
        "result": in_process("--result", str(run)),
    }
    for part, figures in parts.items():
        if as_json:
            print(json.dumps({"ranks": ranks, "steps": steps, "part": part, **figures}), flush=True)
        else:
            shown = ", ".join(f"{value:,.6g} {name}" for name, value in figures.items())
            print(f"{ranks} ranks x {steps} steps, {part}: {shown}", flush=True)


def main() -> None:
    """Measure every size, or do the part that a process was started for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=4096)
    parser.add_argument("--steps", default="60,240")
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--json", action="store_true", help="a line of JSON for each part")
    for part in ("--write", "--follow", "--result"):
        parser.add_argument(part, type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--part", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        write_records(options.write, range(options.part, options.ranks, options.writers))
    elif options.follow:
        words = [sys.executable, __file__, "--write", str(options.follow), "--ranks", str(options.ranks)]
        writers = min(options.writers, options.ranks)
        parts = [[*words, "--writers", str(writers), "--part", str(part)] for part in range(writers)]
        started = [subprocess.Popen(command) for command in parts]
        plan = json_files.load(options.follow / filenames.PLAN, Plan)
        print(json.dumps(followed(options.follow, plan, started)))
    elif options.result:
        print(json.dumps(result_of(options.result)))
    else:
        with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
            for steps in map(int, options.steps.split(",")):
                simulate(Path(folder) / f"{options.ranks}x{steps}", options.ranks, steps, options.writers, options.json)


if __name__ == "__main__":
    main()
