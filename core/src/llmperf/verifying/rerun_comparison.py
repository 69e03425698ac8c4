"""What a rerun proves: losses and gradient norms against the submitted ones, and whether a guess would agree."""

from __future__ import annotations

import math
from collections.abc import Sequence

from llmperf.files.text import printable
from llmperf.runfolder.contents import RunRecords
from llmperf.types.result import LossPoint, Result
from llmperf.types.verification import LevelCheck, Outcome
from llmperf.verifying.curve_bounds import CurveBounds, CurveDifference, bounds_of, losses, norms
from llmperf.verifying.own_data import Impossible
from llmperf.verifying.rerun_plan import RerunPlan


def compared(
    rerun: RerunPlan,
    records: RunRecords,
    submitted: Sequence[LossPoint],
    result: Result,
    asked: int,
    skipped: int | None = None,
) -> LevelCheck:
    """The outcome of a rerun of `asked` steps whose records are given.

    `skipped` is the first step whose update the submission left out and this rerun could not: later steps differ.
    Impossible if fewer steps were compared than asked for, or if the losses move by less than their bounds.
    """
    plan, here = rerun.planned.plan, records.steps.curve.points()
    bounds = bounds_of(result.contract.precision, rerun.precision)
    usable = [point for point in submitted if skipped is None or point.step <= skipped]
    loss, norm = losses(usable, here, bounds), norms(usable, here, bounds)
    if loss is None:
        raise Impossible("no step has a loss in both runs")
    wrong = [difference.text for difference in (loss, norm) if difference is not None and not difference.within]
    counts = (("parameters", result.parameters, plan.flops.parameters),
              ("tokens of a step", result.batch.tokens_per_step, plan.batch.tokens_per_step))  # fmt: skip
    wrong += [f"{name}: submitted {there:,}, {value:,} here" for name, there, value in counts if there != value]
    own = plan.spec.tuning.framework == result.tuning.framework
    agreed = [loss.text, "gradient norms were not compared" if norm is None else norm.text]
    missing = _missing_norms(usable, here, skipped)
    unsure = _unsure(loss, usable, here, bounds, result, asked, skipped)
    if missing and own:
        steps = ", ".join(map(str, missing[:5]))
        alike = plan.spec.tuning.sharding_stage == result.tuning.sharding_stage  # some layouts know no norm
        reason = f"the submission has no gradient norm of step {steps}, and this framework recorded it here"
        (wrong if alike else unsure).append(reason)
    outcome: Outcome = "failed" if wrong else "impossible" if unsure else "passed"
    more = f" (asked for {asked}; the run has no more)" if asked > result.contract.steps else ""
    whose = " (the submitter's own framework)" if own else ""
    how = f"{loss.steps} steps{more} by {plan.spec.tuning.framework}{whose} {rerun.precision}"
    how += f" on {plan.layout.world_size} rank"
    how += "s" * (plan.layout.world_size > 1)
    return LevelCheck(
        level="rerun",
        outcome=outcome,
        message=f"{printable(how, ' ')}: {'; '.join(wrong or [*agreed, *unsure])}",
        figures={
            "steps": loss.steps,
            "framework": plan.spec.tuning.framework,
            "precision": rerun.precision,
            **_figures("loss", loss),
            **_figures("norm", norm),
        },
    )


def _missing_norms(submitted: Sequence[LossPoint], here: Sequence[LossPoint], skipped: int | None) -> list[int]:
    """Steps whose gradient norm was recorded here, and left out there; gradients of a skipped step have none."""
    known = {point.step for point in here if point.grad_norm is not None and math.isfinite(point.grad_norm)}
    return [point.step for point in submitted if point.grad_norm is None and point.step in known - {skipped}]


def _unsure(
    loss: CurveDifference,
    submitted: Sequence[LossPoint],
    here: Sequence[LossPoint],
    bounds: CurveBounds,
    result: Result,
    asked: int,
    skipped: int | None,
) -> list[str]:
    """Why losses that agree prove too little."""
    reasons = []
    if skipped is not None and skipped < min(asked, result.contract.steps):
        reasons.append(
            f"the submission's loss scaler skipped the update of step {skipped}, which a rerun in another precision"
            " cannot follow: later steps were not compared"
        )
    elif loss.steps < (due := _due(result, asked)):
        reasons.append(f"expected the losses of {due} steps, found {loss.steps}")
    theirs = {point.step for point in submitted if point.loss is not None}
    own = [(point.step, point.loss) for point in here if point.loss is not None and point.step in theirs]
    guess, first = math.log(result.model.vocab_size), own[0][1]
    moves = any(abs(value - first) > bounds.of_loss(step) for step, value in own)
    if not (moves and any(abs(value - guess) > bounds.of_loss(step) for step, value in own)):
        reasons.append("the losses move by less than the bound, and so a guess would agree, too; ask for a run in fp32")
    return reasons


def _due(result: Result, asked: int) -> int:
    """Points that a curve of so many steps has."""
    last = result.contract.steps if result.status == "complete" else result.loss_curve[-1].step
    return 1 + (min(asked, last) - 1) // result.loss_curve_every


def _figures(name: str, difference: CurveDifference | None) -> dict[str, float | int | str | None]:
    if difference is None:
        return {f"largest_{name}_difference": None}
    return {f"largest_{name}_difference": difference.difference, f"{name}_bound": difference.bound}
