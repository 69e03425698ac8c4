"""`llmperf validate --rerun N`: trains the first steps of a submission here and compares losses and gradient norms."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from llmperf.errors import Interrupted
from llmperf.files.text import printable
from llmperf.results.failure import outcome
from llmperf.runfolder.filenames import record_files
from llmperf.runfolder.reader import RecordFile
from llmperf.running.launched import SAMPLE_SECONDS, keep_records, run_ranks
from llmperf.types.observing import Progress, StepProgress
from llmperf.types.plan import Plan
from llmperf.types.records import StepRecord
from llmperf.types.result import LossPoint, Result
from llmperf.types.verification import LevelCheck
from llmperf.verifying.own_data import Impossible
from llmperf.verifying.rerun_comparison import compared
from llmperf.verifying.rerun_plan import RerunPlan, plan_rerun

LIMIT_SECONDS = 6 * 3600.0
"""A rerun that is estimated to take longer is not started."""
FEWEST_STEPS = 2
"""The first step shows weights, data and the forward pass; the update shows from the second step on."""

Say = Callable[[str], None]


def rerun_check(
    folder: Path,
    result: Result,
    steps: int,
    framework: str | None = None,
    say: Say = lambda line: None,
    limit_seconds: float = LIMIT_SECONDS,
) -> LevelCheck:
    """Train the first `steps` steps of a submitted run on this machine and hold its losses against those.

    Contract and model come from `result`, the layout from what fits here; `framework` chooses another than the
    submission's own. `say` gets lines of progress. The run folder is a temporary one, which is kept if the check fails.
    `impossible`, with the reason, where this machine cannot train it, or not within `limit_seconds`.
    """
    try:
        submitted = _submitted(result, steps)
        rerun = plan_rerun(result, submitted[-1].step, framework)
        try:
            _check_time(rerun.planned.plan, limit_seconds)
            say(_headline(rerun))
            skipped = None
            if result.contract.precision == "fp16" and rerun.precision != "fp16":
                skipped = first_skipped(folder, steps)
            return _trained(rerun, submitted, result, steps, say, limit_seconds, skipped)
        finally:
            rerun.planned.machine.close()
    except Impossible as error:
        message = f"cannot rerun the first {steps} steps here: {printable(str(error), ' ')}"
        return LevelCheck(level="rerun", outcome="impossible", message=message)


def _submitted(result: Result, steps: int) -> list[LossPoint]:
    """The points of the submitted curve that can be compared; Impossible if these are too few."""
    points = [point for point in result.loss_curve if point.step <= steps]
    if len([point for point in points if point.loss is not None]) < FEWEST_STEPS:
        every = result.loss_curve_every
        fewest = f"expected --rerun {every + 1} or more, its loss curve has every {every}th step" if every > 1 else (
            f"expected the losses of at least {FEWEST_STEPS} steps, found {len(points)}"
        )  # fmt: skip
        raise Impossible(fewest)
    return points


def first_skipped(folder: Path, steps: int) -> int | None:
    """The first of a run's `steps` first steps whose update was skipped; None if none was. Reads the records."""
    skipped = []
    for path in record_files(folder):
        for block in RecordFile(path).blocks():
            of_steps = [record for record in block if isinstance(record, StepRecord)]
            skipped += [record.step for record in of_steps if record.skipped and record.step <= steps]
            if any(record.step > steps for record in of_steps):
                break
    return min(skipped, default=None)


def _check_time(plan: Plan, limit_seconds: float) -> None:
    """Impossible if the estimated time is beyond the limit; without an estimate, that of a slow machine."""
    seconds = plan.expected_step_seconds
    if seconds is None:
        from llmperf.reference.cost import SLOW_HOST

        seconds = (
            plan.batch.tokens_per_step * 6 * (plan.flops.active_parameters or plan.flops.parameters) / SLOW_HOST.flops
        )
    _check_limit(plan, seconds * plan.steps, limit_seconds)


def _check_limit(plan: Plan, seconds: float, limit_seconds: float) -> None:
    if seconds > limit_seconds:
        hours, limit = seconds / 3600, limit_seconds / 3600
        raise Impossible(f"{plan.steps} steps would take about {hours:,.1f} h, more than the limit of {limit:g} h")


def _headline(rerun: RerunPlan) -> str:
    plan = rerun.planned.plan
    spec, device = plan.spec, plan.probe.devices[0]
    seconds = plan.expected_step_seconds
    pace = "" if seconds is None else f", about {seconds:.2g} s each"
    ranks = f"{plan.layout.world_size} x {device.model} ({plan.vendor})"
    where = f"{spec.contract.model} by {spec.tuning.framework} in {spec.contract.precision} on {ranks}"
    return f"rerun: {printable(where, ' ')}, {plan.steps} of {spec.contract.steps} steps{pace}"


class _Progress:
    """Reports each step beside the submitted one, and ends the run if it will take longer than the limit."""

    def __init__(self, plan: Plan, submitted: Sequence[LossPoint], say: Say, limit_seconds: float) -> None:
        self._plan = plan
        self._losses = {point.step: point.loss for point in submitted}
        self._say = say
        self._limit = limit_seconds
        self._began = time.monotonic()

    def started(self, plan: Plan, folder: Path) -> None:
        """Nothing to report."""

    def observe(self, progress: Progress, steps: Sequence[StepProgress]) -> None:
        elapsed = time.monotonic() - self._began
        left = max((self._plan.steps - step.step) * step.step_seconds for step in steps) if steps else 0.0
        _check_limit(self._plan, elapsed + left, self._limit)
        for step in steps:
            there = self._losses.get(step.step)
            beside = "" if there is None else f", submitted {there:.6f}"
            loss = "no loss" if step.loss is None else f"loss {step.loss:.6f}"
            self._say(f"rerun: step {step.step} of {progress.steps}: {loss}{beside}")


def _trained(
    rerun: RerunPlan,
    submitted: Sequence[LossPoint],
    result: Result,
    asked: int,
    say: Say,
    limit_seconds: float,
    skipped: int | None,
) -> LevelCheck:
    """Train in a temporary folder, which is kept unless the check passes, and compare."""
    planned, temporary = rerun.planned, Path(tempfile.mkdtemp(prefix="llmperf-rerun-"))
    kept = False
    try:
        run = temporary / planned.plan.run_id
        plan = replace(planned.plan, run_id=run.name)
        watching, launcher = _Progress(plan, submitted, say, limit_seconds), planned.machine.launcher
        records = run_ranks(plan, run, planned.plugins, watching, None, SAMPLE_SECONDS, launcher, keep_records)
        status, failure = outcome(records)
        if status == "aborted":
            raise Interrupted
        if failure is not None:
            kept = True
            raise Impossible(f"its run failed here: {failure.message}; its folder is {run}")
        check = compared(rerun, records, submitted, result, asked, skipped)
        kept = check.outcome != "passed"
        return replace(check, message=f"{check.message}; folder of the rerun: {run}") if kept else check
    finally:
        if not kept:
            shutil.rmtree(temporary, ignore_errors=True)
