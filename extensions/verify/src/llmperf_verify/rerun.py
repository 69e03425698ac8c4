"""`llmperf validate --rerun N`: trains the first steps of a submission here, compares losses, norms and its claims."""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from llmperf import load_plan, printable, recorded
from llmperf.errors import Interrupted
from llmperf.types import MemorySample, Plan, Progress, Result, StepProgress, StepRecord, Text
from llmperf.types.result import LossPoint

from llmperf_verify.claims import Measured, claim_checks, claims_text, differences
from llmperf_verify.documents import Impossible
from llmperf_verify.rerun_comparison import compared
from llmperf_verify.rerun_plan import RerunPlan, plan_rerun
from llmperf_verify.verification import LevelCheck

LIMIT_SECONDS = 6 * 3600.0
"""A rerun that is estimated to take longer is not started."""
SLOW_FLOPS = 5e9
"""FLOP/s of a host that is slower than any today."""
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

    Contract and model come from `result`, and on the same device model also its layout and tuning, else claims are not
    compared. Steps whose claims are better than measured are trained again, and the better rerun counts.
    `impossible`, with the reason, where this machine cannot train it, or not within `limit_seconds` each time.
    """
    try:
        submitted = _submitted(result, steps)
        rerun = plan_rerun(result, submitted[-1].step, framework)
        try:
            plan, device = rerun.plan, rerun.plan.probe.devices[0]
            seconds = plan.expected_step_seconds
            pace = "" if seconds is None else f", about {seconds:.2g} s each"
            if seconds is None:  # then that of a slow machine
                work = 6 * (plan.flops.active_parameters or plan.flops.parameters)
                seconds = plan.batch.tokens_per_step * work / SLOW_FLOPS
            _check_limit(plan, seconds * plan.steps, limit_seconds)
            what = f"{plan.spec.contract.model} by {plan.spec.tuning.framework} in {plan.spec.contract.precision}"
            where = printable(Text("{} on {} x {} ({})", what, plan.layout.world_size, device.model, plan.vendor), " ")
            say(Text("rerun: {}, {} of {} steps{}", where, plan.steps, plan.spec.contract.steps, pace))
            skipped = None
            if result.contract.precision == "fp16" and rerun.precision != "fp16":
                skipped = first_skipped(folder, steps)

            def judged(run: Path, here: Result) -> LevelCheck:
                check, last = compared(rerun, here, submitted, result, steps, skipped), plan.steps
                if check.outcome == "failed":
                    return check
                if rerun.other_layout is None and here.peak_again is None:
                    here = replace(here, peak_again=rerun.run.peak_again())
                # the first step is the only one that the rerun does not measure
                both = measured(folder, result, last), measured(run, here, last)
                claims = claim_checks(*both, rerun.other_layout)
                text = claims_text(claims, differences(result, here))
                message = Text("{}; {}", check.message, text) if text else check.message
                return replace(check, claims=claims, message=message)

            def trained() -> LevelCheck:
                return _trained(rerun, _Progress(rerun.plan, submitted, say, limit_seconds), judged)

            check = trained()
            if 0 < _better(check) < math.inf:
                say("rerun: a claim is better than what was measured here: once more")
                check = min(check, trained(), key=_better)  # a run may be slow by chance; not both, as a rule
            return check
        finally:
            rerun.run.close()
    except Impossible as error:
        message = Text("cannot rerun the first {} steps here: {}", steps, printable(str(error), " "))
        return LevelCheck(level="rerun", outcome="impossible", message=message)


def default_steps(result: Result) -> int:
    """Steps of the warm-up and as many points of the loss curve after it as MEASURED_STEPS says; at most all."""
    wanted = result.contract.warmup_steps + MEASURED_STEPS * result.loss_curve_every
    return max(FEWEST_STEPS, min(wanted, result.contract.steps))


def _better(check: LevelCheck) -> float:
    """Number of claims that are better than what was measured here; none is known of a check that has not passed."""
    return sum(claim.outcome == "better" for claim in check.claims) if check.outcome == "passed" else math.inf


def _submitted(result: Result, steps: int) -> list[LossPoint]:
    """The points of the submitted curve that can be compared; Impossible if these are too few."""
    points = [point for point in result.loss_curve if point.step <= steps]
    if len([point for point in points if point.loss is not None]) < FEWEST_STEPS:
        every = result.loss_curve_every
        if every > 1:
            raise Impossible(Text("expected --rerun {} or more, its loss curve has every {}th step", every + 1, every))
        raise Impossible(Text("expected the losses of at least {} steps, found {}", FEWEST_STEPS, len(points)))
    return points


def first_skipped(folder: Path, steps: int) -> int | None:
    """The first of a run's `steps` first steps whose update was skipped; None if none was. Reads the records."""
    skipped = []
    for _, records in recorded(folder):
        for record in records:
            if not isinstance(record, StepRecord):
                continue
            if record.step > steps:
                break
            if record.skipped:
                skipped.append(record.step)
    return min(skipped, default=None)


def _check_limit(plan: Plan, seconds: float, limit_seconds: float) -> None:
    if seconds > limit_seconds:
        hours, limit = seconds / 3600, limit_seconds / 3600
        message = Text("{} steps would take about {:,.1f} h, more than the limit of {:g} h", plan.steps, hours, limit)
        raise Impossible(message)


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
            self._say(Text("rerun: step {} of {}: {}{}", step.step, progress.steps, loss, beside))


def _trained(rerun: RerunPlan, watching: _Progress, judged: Callable[[Path, Result], LevelCheck]) -> LevelCheck:
    """Train in a temporary folder, which is kept unless the check passes, and compare."""
    temporary = Path(tempfile.mkdtemp(prefix="llmperf-rerun-"))
    kept = False
    try:
        run = temporary / rerun.plan.run_id
        here = rerun.run.train(run, watching)
        if here.status == "aborted":
            raise Interrupted
        if here.failure is not None:
            kept = True
            raise Impossible(Text("its run failed here: {}; its folder is {}", here.failure.message, run))
        check = judged(run, here)
        kept = check.outcome != "passed"
        return replace(check, message=Text("{}; folder of the rerun: {}", check.message, run)) if kept else check
    finally:
        if not kept:
            shutil.rmtree(temporary, ignore_errors=True)


def measured(folder: Path, result: Result, last: int) -> Measured:
    """A run with the times of its steps up to the last one of a rerun, each that of its slowest rank."""
    plan = load_plan(folder)
    seconds: dict[int, list[float]] = defaultdict(list)
    cores = None
    for _, records in recorded(folder):
        for record in records:
            if isinstance(record, MemorySample) and record.host is not None:
                cores = record.host.cores  # of a run on one node, by its first reading
                break
            if isinstance(record, StepRecord):
                if record.step > last:
                    break
                seconds[record.step].append(record.step_seconds)
    slowest = {step: max(times) for step, times in seconds.items() if len(times) == plan.layout.world_size}
    return Measured(result=result, step_seconds=slowest, cores=cores, on_cpu=plan.probe.on_cpu)
