"""`llmperf validate --rerun N`: trains the first steps of a submission here, compares losses, norms and its claims."""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from llmperf.errors import Interrupted
from llmperf.files.json_files import load
from llmperf.files.text import printable
from llmperf.planning.ready import peak_again
from llmperf.results.build import result_of
from llmperf.results.failure import outcome
from llmperf.results.step_figures import recorded_figures
from llmperf.runfolder import filenames
from llmperf.runfolder.contents import RunRecords, samples_of
from llmperf.runfolder.filenames import record_files
from llmperf.runfolder.reader import RecordFile
from llmperf.running.launched import SAMPLE_SECONDS, keep_records, run_ranks
from llmperf.types.observing import Progress, StepProgress
from llmperf.types.plan import Plan
from llmperf.types.records import StepRecord
from llmperf.types.result import LossPoint, Result
from llmperf.types.verification import LevelCheck
from llmperf.verifying.claims import Measured, claim_checks, claims_text, differences
from llmperf.verifying.own_data import Impossible
from llmperf.verifying.rerun_comparison import compared
from llmperf.verifying.rerun_plan import RerunPlan, plan_rerun

LIMIT_SECONDS = 6 * 3600.0
"""A rerun that is estimated to take longer is not started."""
FEWEST_STEPS = 2
"""The first step shows weights, data and the forward pass; the update shows from the second step on."""

MEASURED_STEPS = 5
"""Measured steps that a rerun has by default: a trainer that changes when it is measured shows in them."""

Say = Callable[[str], None]


def rerun_check(
    folder: Path,
    result: Result,
    steps: int,
    framework: str | None = None,
    say: Say = lambda line: None,
    limit_seconds: float = LIMIT_SECONDS,
) -> LevelCheck:
    """Train the first `steps` steps of a submitted run on this machine and hold its losses and claims against those.

    Contract and model come from `result`, and on the same device model also its layout and tuning; otherwise the layout
    is what fits here, and claims are not compared. `framework` chooses another than the submission's own. `say` gets
    lines of progress. The run folder is a temporary one, which is kept if the check fails.
    Steps whose claims are better than what was measured are trained a second time, and the rerun with fewer such claims
    counts. `impossible`, with the reason, where this machine cannot train it, or not within `limit_seconds` each time.
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

            def judged(records: RunRecords) -> LevelCheck:
                check = compared(rerun, records, submitted, result, steps, skipped)
                return check if check.outcome == "failed" else _with_claims(check, folder, result, rerun, records)

            def trained() -> LevelCheck:
                return _trained(rerun, _Progress(rerun.planned.plan, submitted, say, limit_seconds), judged)

            check = trained()
            if 0 < _better(check) < math.inf:
                say("rerun: a claim is better than what was measured here: once more")
                check = min(check, trained(), key=_better)  # a run may be slow by chance; not both, as a rule
            return check
        finally:
            rerun.planned.machine.close()
    except Impossible as error:
        message = f"cannot rerun the first {steps} steps here: {printable(str(error), ' ')}"
        return LevelCheck(level="rerun", outcome="impossible", message=message)


def default_steps(result: Result) -> int:
    """Steps of the warm-up and as many points of the loss curve after it as MEASURED_STEPS says; at most all."""
    wanted = result.contract.warmup_steps + MEASURED_STEPS * result.loss_curve_every
    return max(FEWEST_STEPS, min(wanted, result.contract.steps))


def _better(check: LevelCheck) -> float:
    """How many claims are better than what was measured here; none is known of a check that has not passed."""
    return sum(claim.outcome == "better" for claim in check.claims) if check.outcome == "passed" else math.inf


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


def _trained(rerun: RerunPlan, watching: _Progress, judged: Callable[[RunRecords], LevelCheck]) -> LevelCheck:
    """Train in a temporary folder, which is kept unless the check passes, and compare."""
    planned, temporary = rerun.planned, Path(tempfile.mkdtemp(prefix="llmperf-rerun-"))
    kept = False
    try:
        plan, run = planned.plan, temporary / planned.plan.run_id
        launcher = planned.machine.launcher
        records = run_ranks(plan, run, planned.plugins, watching, None, SAMPLE_SECONDS, launcher, keep_records)
        status, failure = outcome(records)
        if status == "aborted":
            raise Interrupted
        if failure is not None:
            kept = True
            raise Impossible(f"its run failed here: {failure.message}; its folder is {run}")
        check = judged(records)
        kept = check.outcome != "passed"
        return replace(check, message=f"{check.message}; folder of the rerun: {run}") if kept else check
    finally:
        if not kept:
            shutil.rmtree(temporary, ignore_errors=True)


def _with_claims(check: LevelCheck, folder: Path, result: Result, rerun: RerunPlan, records: RunRecords) -> LevelCheck:
    """The same check with the claims of the submission beside the figures of the rerun."""
    here, last = result_of(replace(records, plan=replace(records.plan, purpose="run"))), rerun.planned.plan.steps
    if rerun.other_layout is None and here.peak_again is None:
        here = replace(here, peak_again=peak_again(rerun.planned.plan, rerun.planned.plugins))
    # the first step is the only one that the rerun does not measure
    seconds = dict(enumerate(records.steps.slowest_seconds, 2))
    cores, on_cpu = _cores(records.run), records.plan.probe.on_cpu
    measured = Measured(result=here, step_seconds=seconds, cores=cores, on_cpu=on_cpu)
    claims = claim_checks(submission(folder, result, last), measured, rerun.other_layout)
    text = claims_text(claims, differences(result, here))
    return replace(check, claims=claims, message=f"{check.message}; {text}" if text else check.message)


def submission(folder: Path, result: Result, last: int) -> Measured:
    """A submitted run with the times of its steps up to the last one of a rerun."""
    of_steps = takewhile(lambda figures: figures.step <= last, recorded_figures(folder))
    seconds = {figures.step: figures.seconds for figures in of_steps if figures.seconds is not None}
    on_cpu = load(folder / filenames.PLAN, Plan).probe.on_cpu
    return Measured(result=result, step_seconds=seconds, cores=_cores(folder), on_cpu=on_cpu)


def _cores(folder: Path) -> int | None:
    """Cores that a run on one node could use, by the first reading of its host."""
    return next((sample.host.cores for sample in samples_of(folder, 1) if sample.host is not None), None)
