"""How closely the loss of one run follows that of another, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from llmperf.errors import UserError
from llmperf.results.deduplicate import one_run
from llmperf.types.result import Result
from llmperf.types.spec import Model

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
    """Of the run, nats per token."""
    reference: float
    """Of the reference, nats per token."""

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
class Alignment:
    """A run held against a reference."""

    run_id: str
    """The run."""
    reference_id: str
    """What it is held against."""
    steps: tuple[Difference, ...]
    """Those that both have, in order."""
    from_step: int
    """The first step that counts in the mean."""
    mean_relative: float | None
    """Mean relative error of the steps that count; None when there is none."""
    largest_absolute: float
    """Nats per token, over all steps."""
    passed: bool | None
    """Whether all limits hold; None when nobody can tell: no step counts, another contract, or no other run."""
    why: tuple[str, ...]
    """What keeps it from passing, whatever the losses are that both have."""
    unlike: tuple[str, ...]
    """Parts of the contract in which the two differ: their losses need not agree then."""


def align(
    run: Result,
    reference: Result,
    from_step: int = FROM_STEP,
    mean_limit: float = MEAN_LIMIT,
    step_limit: float | None = None,
) -> Alignment:
    """Hold `run` against `reference`.

    It passes when the mean relative error from `from_step` on is below `mean_limit` and, if there is a `step_limit`,
    no step at all differs by more than that many nats. A run that failed or lost its loss is not aligned; one on
    another contract, or on the same records, cannot be told. UserError when one has no loss curve, or none in common.
    """
    steps = _common(run, reference)
    counted = [one.relative for one in steps if one.step >= from_step]
    mean = fmean(counted) if counted else None
    largest = max(one.absolute for one in steps)
    within = (step_limit is None or largest <= step_limit) and (mean is None or mean < mean_limit)
    faults, doubts = (*_faults(run), *_faults(reference)), _doubts(run, reference)
    return Alignment(
        run_id=run.run_id,
        reference_id=reference.run_id,
        steps=tuple(steps),
        from_step=from_step,
        mean_relative=mean,
        largest_absolute=largest,
        passed=False if faults or not within else None if doubts or mean is None else True,
        why=(*faults, *doubts),
        unlike=unlike(run, reference),
    )


def _faults(result: Result) -> tuple[str, ...]:
    """Why a run is aligned with nothing: it is not complete, or a loss is no number."""
    faults = [] if result.status == "complete" else [f"{result.run_id} is {result.status}"]
    lost = [point for point in result.loss_curve if point.loss is None]
    if lost:
        what = lost[0].nonfinite or "no number"
        faults.append(f"the loss of {result.run_id} is {what} at step {lost[0].step}, no number at {len(lost)} in all")
    return tuple(faults)


def _doubts(run: Result, reference: Result) -> tuple[str, ...]:
    """Why agreement would show nothing: both are one run, or were to train something else."""
    if one_run(run, reference):
        return ("both are one and the same run",)
    other = [name for name in unlike(run, reference) if name not in MAY_DIFFER]
    return (f"another {', '.join(other)} than the reference",) if other else ()


def _common(run: Result, reference: Result) -> Sequence[Difference]:
    ours, theirs = _curve(run), _curve(reference)
    common = [Difference(step=step, loss=ours[step], reference=theirs[step]) for step in sorted(ours.keys() & theirs)]
    if not common:
        raise UserError(f"{run.run_id}: no step in common with {reference.run_id}")
    return common


def _curve(result: Result) -> dict[int, float]:
    curve = {point.step: point.loss for point in result.loss_curve if point.loss is not None}
    if not curve:
        raise UserError(f"{result.run_id}: loss_curve: expected the loss of each step, found none")
    return curve


def unlike(one: Result, other: Result) -> tuple[str, ...]:
    """Names of the contract's parts that differ between two results; `model` also where its facts do."""
    fields = type(one.contract).__dataclass_fields__
    different = [name for name in fields if getattr(one.contract, name) != getattr(other.contract, name)]
    if "model" not in different and _facts(one) != _facts(other):
        different.insert(0, "model")
    return tuple(different)


def _facts(result: Result) -> Model:
    """The model without what only describes it."""
    return replace(result.model, title="", source="")
