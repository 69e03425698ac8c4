"""Alignment: how closely the loss of one run follows that of another, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from llmperf.errors import UserError
from llmperf.types import Result

from llmperf_compare.copies import one_run
from llmperf_compare.kinds import unlike

FROM_STEP = 21
"""The published tables compare from the 21st step on."""
MEAN_LIMIT = 0.02
"""Largest mean relative error of an aligned run, as the published tables have it."""
MAY_DIFFER = ("precision", "steps", "warmup_steps")
"""Parts of the contract in which a run may differ from its reference: an fp32 run is one for bf16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One step that both runs have."""

    step: int
    """From 1."""
    loss: float
    """Loss of the run, nats per token."""
    reference: float
    """Loss of the reference, nats per token."""

    @property
    def absolute(self) -> float:
        """Nats per token."""
        return abs(self.loss - self.reference)

    @property
    def relative(self) -> float:
        """Relative error; infinite where the reference is 0 and the run is not."""
        if self.absolute == 0:
            return 0.0
        return self.absolute / abs(self.reference) if self.reference else float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionDifference:
    """Two runs by different precision recipes."""

    run: str
    """Recipe of the run."""
    reference: str
    """Recipe of the reference."""
    emulated: bool
    """The run emulated fp8."""
    case: str
    """The recipe of the reference's case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """A run compared with a reference."""

    run_id: str
    reference_id: str
    """The run it is compared with."""
    steps: tuple[Difference, ...]
    """Those that both have, in order."""
    from_step: int
    """The first step that counts in the mean."""
    mean_relative: float | None
    """Mean relative error of the steps that count; None when there is none."""
    mean_absolute: float
    """Nats per token, over all steps."""
    largest_absolute: float
    """Nats per token, over all steps."""
    largest_step: int
    """The step of `largest_absolute`, the first of several."""
    precisions: PrecisionDifference | None
    """The precision recipes of both; None if they are the same."""
    passed: bool | None
    """All limits hold; None if unknown: no step counts, the contracts differ, or both are one run."""
    why: tuple[str, ...]
    """Reasons why it does not pass that do not depend on the losses."""
    unlike: tuple[str, ...]
    """Parts of the contract in which the two differ, so that their losses may differ."""


def align(
    run: Result,
    reference: Result,
    from_step: int = FROM_STEP,
    mean_limit: float = MEAN_LIMIT,
    step_limit: float | None = None,
) -> Alignment:
    """Compare the losses of `run` with those of `reference`.

    It passes if the mean relative error from `from_step` on is below `mean_limit` and no step differs by more nats than
    `step_limit`. The outcome is unknown for another contract or the same records. UserError if no step is common.
    """
    ours, theirs = _curve(run), _curve(reference)
    steps = [Difference(step=step, loss=ours[step], reference=theirs[step]) for step in sorted(ours.keys() & theirs)]
    if not steps:
        raise UserError(f"{run.run_id}: no step in common with {reference.run_id}")
    counted = [step.relative for step in steps if step.step >= from_step]
    mean = fmean(counted) if counted else None
    most = max(steps, key=lambda step: step.absolute)
    largest = most.absolute
    within = (step_limit is None or largest <= step_limit) and (mean is None or mean < mean_limit)
    faults = (*_faults(run), *_faults(reference))
    other = [name for name in unlike(run, reference) if name not in MAY_DIFFER]
    doubts = (f"another {', '.join(other)} than the reference",) if other else ()
    if one_run(run, reference):
        doubts = ("both are one and the same run",)
    precisions = None
    if run.contract.precision != reference.contract.precision:
        changed = [change.case_value for change in reference.fix_hp if change.path == "contract.precision"]
        precisions = PrecisionDifference(
            run=run.contract.precision,
            reference=reference.contract.precision,
            emulated=run.emulated,
            case=str(changed[0]) if changed else reference.contract.precision,
        )
    return Alignment(
        run_id=run.run_id,
        reference_id=reference.run_id,
        steps=tuple(steps),
        from_step=from_step,
        mean_relative=mean,
        mean_absolute=fmean(step.absolute for step in steps),
        largest_absolute=largest,
        largest_step=most.step,
        precisions=precisions,
        passed=False if faults or not within else None if doubts or mean is None else True,
        why=(*faults, *doubts),
        unlike=unlike(run, reference),
    )


def _faults(result: Result) -> tuple[str, ...]:
    """Reasons why a run cannot be aligned: it is not complete, or a loss is not a number."""
    faults = [] if result.status == "complete" else [f"{result.run_id} is {result.status}"]
    lost = [point for point in result.loss_curve if point.loss is None]
    if lost:
        what = lost[0].nonfinite or "no number"
        faults.append(f"the loss of {result.run_id} is {what} at step {lost[0].step}, no number at {len(lost)} in all")
    return tuple(faults)


def _curve(result: Result) -> dict[int, float]:
    curve = {point.step: point.loss for point in result.loss_curve if point.loss is not None}
    if not curve:
        raise UserError(f"{result.run_id}: loss_curve: expected the loss of each step, found none")
    return curve
