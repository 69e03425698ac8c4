"""Comparison of a rerun: losses and gradient norms against the submitted ones, and whether a guess would agree.

Bounds are how far two honest runs of one contract may be apart; docs/trust.md has the measurements that they come from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from llmperf import printable
from llmperf.types import Precision, Result, Text
from llmperf.types.result import LossPoint

from llmperf_verify.documents import Impossible
from llmperf_verify.rerun_plan import RerunPlan
from llmperf_verify.verification import LevelCheck, Outcome

GROWTH = 1.25
"""Growth of the bounds from step to step, as rounding differences grow, faster at high learning rates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveBounds:
    """Largest differences of a step, which grow with the steps before it."""

    loss: float
    """Nats per token, at step 1."""
    norm: float
    """Relative, at step 1."""

    def of_loss(self, step: int) -> float:
        """Nats per token, at a step."""
        return self.loss * GROWTH ** (step - 1)

    def of_norm(self, step: int) -> float:
        """Relative, at a step."""
        return self.norm * GROWTH ** (step - 1)


FP32 = CurveBounds(loss=2e-5, norm=1e-3)
"""Both runs in fp32."""
REDUCED = CurveBounds(loss=2e-3, norm=0.02)
"""At least one run computes products in 16 bits or tf32."""
FP8 = CurveBounds(loss=5e-3, norm=0.05)
"""At least one run computes products in fp8."""


def bounds_of(*recipes: Precision) -> CurveBounds:
    """The bounds for runs by these recipes."""
    if set(recipes) == {"fp32"}:
        return FP32
    return FP8 if any(recipe.startswith("fp8") for recipe in recipes) else REDUCED


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveDifference:
    """Two curves, step by step, with the step that comes nearest to its bound or exceeds it most."""

    what: Literal["loss", "gradient norm"]
    """The curves of what."""
    steps: int
    """Steps that both have."""
    step: int
    """The worst step."""
    submitted: float
    """At that step."""
    here: float
    """At that step."""
    difference: float
    """At that step: in nats per token of a loss, relative of a norm."""
    bound: float
    """At that step."""

    @property
    def within(self) -> bool:
        """All steps are within their bounds."""
        return self.difference <= self.bound

    @property
    def text(self) -> str:
        """A sentence, such as `loss within 4.8e-07 (bound 1.4e-05, step 5)`."""
        most, differs = (
            ("loss differs by at most {:.1e} nats per token (bound {:.2g}, step {})",
             "loss differs by {:.1e} nats per token (bound {:.2g}, step {})")
            if self.what == "loss" else
            ("gradient norm differs by at most {:.1e} (bound {:.2g}, step {})",
             "gradient norm differs by {:.1e} (bound {:.2g}, step {})")
        )  # fmt: skip
        text = Text(most if self.within else differs, self.difference, self.bound, self.step)
        return text if self.within else Text("{}: submitted {:.6f}, {:.6f} here", text, self.submitted, self.here)


def losses(submitted: Sequence[LossPoint], here: Sequence[LossPoint], bounds: CurveBounds) -> CurveDifference | None:
    """The losses of two runs; None if no step has both."""
    there, mine = ({point.step: point.loss for point in points} for points in (submitted, here))
    return _worst("loss", there, mine, lambda one, other: abs(one - other), bounds.of_loss)


def norms(submitted: Sequence[LossPoint], here: Sequence[LossPoint], bounds: CurveBounds) -> CurveDifference | None:
    """The gradient norms of two runs; None if no step has both."""
    there, mine = ({point.step: point.grad_norm for point in points} for points in (submitted, here))
    return _worst(
        "gradient norm", there, mine, lambda one, other: abs(one - other) / max(abs(other), 1e-30), bounds.of_norm
    )


def _worst(
    what: Literal["loss", "gradient norm"],
    submitted: Mapping[int, float | None],
    here: Mapping[int, float | None],
    difference: Callable[[float, float], float],
    bound: Callable[[int], float],
) -> CurveDifference | None:
    """The step that is nearest to its bound, or exceeds it most."""
    found = [
        CurveDifference(
            what=what, steps=0, step=step, submitted=there, here=value,
            difference=difference(there, value), bound=bound(step),
        )
        for step in sorted(submitted.keys() & here.keys())
        if (there := submitted[step]) is not None and (value := here[step]) is not None
    ]  # fmt: skip
    worst = max(found, key=lambda step: step.difference / step.bound, default=None)
    return None if worst is None else replace(worst, steps=len(found))


def compared(
    rerun: RerunPlan,
    trained: Result,
    submitted: Sequence[LossPoint],
    result: Result,
    asked: int,
    skipped: int | None = None,
) -> LevelCheck:
    """The outcome of a rerun of `asked` steps, all before `skipped`, the first update that the submission left out."""
    plan, here = rerun.plan, trained.loss_curve
    bounds = bounds_of(result.contract.precision, rerun.precision)
    usable = [point for point in submitted if skipped is None or point.step <= skipped]
    loss, norm = losses(usable, here, bounds), norms(usable, here, bounds)
    if loss is None:
        raise Impossible(Text("no step has a loss in both runs"))
    wrong = [difference.text for difference in (loss, norm) if difference is not None and not difference.within]
    counts = ((Text("parameters"), result.parameters, plan.flops.parameters),
              (Text("tokens of a step"), result.batch.tokens_per_step, plan.batch.tokens_per_step))  # fmt: skip
    wrong += [
        Text("{}: submitted {:,}, {:,} here", name, there, value) for name, there, value in counts if there != value
    ]
    own = plan.spec.tuning.framework == result.tuning.framework
    agreed = [loss.text, Text("gradient norms were not compared") if norm is None else norm.text]
    known = {point.step for point in here if point.grad_norm is not None and math.isfinite(point.grad_norm)}
    # gradients of a skipped step have no norm
    missing = [point.step for point in usable if point.grad_norm is None and point.step in known - {skipped}]
    unsure = _unsure(loss, usable, here, bounds, result, asked, skipped)
    if missing and own:
        steps = ", ".join(map(str, missing[:5]))
        alike = plan.spec.tuning.sharding_stage == result.tuning.sharding_stage  # some layouts know no norm
        reason = Text("the submission has no gradient norm of step {}, and this framework recorded it here", steps)
        (wrong if alike else unsure).append(reason)
    outcome: Outcome = "failed" if wrong else "impossible" if unsure else "passed"
    steps_text = "{} steps (asked for {}; the run has no more)" if asked > result.contract.steps else "{} steps"
    whose, name = Text(" (the submitter's own framework)") if own else "", printable(plan.spec.tuning.framework, " ")
    template = "{} by {}{} {} on {} rank" if plan.layout.world_size == 1 else "{} by {}{} {} on {} ranks"
    how = Text(template, Text(steps_text, loss.steps, asked), name, whose, rerun.precision, plan.layout.world_size)
    return LevelCheck(
        level="rerun",
        outcome=outcome,
        message=Text("{}: {}", how, Text.joined("; ", wrong or [*agreed, *unsure])),
        figures={
            "steps": loss.steps,
            "framework": plan.spec.tuning.framework,
            "precision": rerun.precision,
            "largest_loss_difference": loss.difference,
            "loss_bound": loss.bound,
            "largest_norm_difference": None if norm is None else norm.difference,
            **({} if norm is None else {"norm_bound": norm.bound}),
        },
    )


def _unsure(
    loss: CurveDifference,
    submitted: Sequence[LossPoint],
    here: Sequence[LossPoint],
    bounds: CurveBounds,
    result: Result,
    asked: int,
    skipped: int | None,
) -> list[str]:
    """Reasons why losses that agree prove too little."""
    reasons: list[str] = []
    last = result.contract.steps if result.status == "complete" else result.loss_curve[-1].step
    due = 1 + (min(asked, last) - 1) // result.loss_curve_every
    if skipped is not None and skipped < min(asked, result.contract.steps):
        reasons.append(
            Text(
                "the submission's loss scaler skipped the update of step {}, which a rerun in another precision"
                " cannot follow: later steps were not compared",
                skipped,
            )
        )
    elif loss.steps < due:
        reasons.append(Text("expected the losses of {} steps, found {}", due, loss.steps))
    theirs = {point.step for point in submitted if point.loss is not None}
    own = [(point.step, point.loss) for point in here if point.loss is not None and point.step in theirs]
    guess, first = math.log(result.model.vocab_size), own[0][1]
    moves = any(abs(value - first) > bounds.of_loss(step) for step, value in own)
    if not (moves and any(abs(value - guess) > bounds.of_loss(step) for step, value in own)):
        reasons.append(
            Text("the losses move by less than the bound, and so a guess would agree, too; ask for a run in fp32")
        )
    return reasons
