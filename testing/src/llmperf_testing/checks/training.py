"""How a framework plugin trains: a real run on a tiny model, and how its ranks leave it."""

from __future__ import annotations

import math
from collections.abc import Callable

from llmperf.types import Plan, RunSpec
from llmperf.types.result import Failure

from llmperf_testing import reference
from llmperf_testing.check import Skip, require
from llmperf_testing.checks.environment import environment_is_text
from llmperf_testing.checks.planning import agent_is_an_argv, files_stay_in_the_run_folder, plans_the_default_case
from llmperf_testing.framework import FrameworkSubject
from llmperf_testing.trials import Ends

CHANCE_NATS = 0.35
"""How far the first loss may be from that of equal chances."""
LEARNT_SHARE = 0.05
"""By this share the loss falls at least, on a text of one sentence."""
SAME_STEPS = 5
SAME_NATS = 1e-3
CLOSE_NATS = {"fp32": 1e-4}
"""How near losses are that differ by rounding alone, where every product is exact."""
ROUNDED_NATS = 2e-2
"""The same in lower precisions."""
LEAVING_SECONDS = 15.0
BEFORE_A_RUN = (plans_the_default_case, agent_is_an_argv, files_stay_in_the_run_folder, environment_is_text)


def run_ends_complete(subject: FrameworkSubject) -> None:
    """A run as `llmperf run` makes it, from plan.json in processes of its own, ends with a complete result."""
    subject.rests_on(*BEFORE_A_RUN)
    result = subject.trained.result
    require(result.status in ("complete", "ok"), f"the run ended {result.status}: {failure_text(result.failure)}")


def failure_text(failure: Failure | None) -> str:
    """A run's failure and the last line of the rank's log, in one line; empty if there is none."""
    if failure is None:
        return ""
    last = next((line.strip() for line in reversed(failure.log_tail) if line.strip()), "")
    text = f"{failure.reason}: {failure.exception or ''} {failure.message}"
    return f"{text}; the last line of its log: {last!r}" if last and last not in failure.message else text


def tokens_add_up(subject: FrameworkSubject) -> None:
    """The tokens that the ranks report for a step are together the step's."""
    subject.rests_on(*BEFORE_A_RUN)
    if not subject.trained.steps:
        raise Skip("the run made no step")
    expected = subject.trained.plan.batch.tokens_per_step
    for step, records in subject.trained.steps.items():
        found = sum(one.tokens for one in records)
        require(found == expected, f"step {step}: {found} tokens over all ranks; expected {expected}")


def losses_are_told(subject: FrameworkSubject) -> None:
    """Each step has a loss on one rank at least."""
    subject.rests_on(run_ends_complete)
    missing = [step for step in subject.trained.steps if step not in subject.losses()]
    require(not missing, f"no rank tells the loss of steps {missing}")


def first_loss_is_chance(subject: FrameworkSubject) -> None:
    """Before anything is learnt the loss is the logarithm of the vocabulary: mean nats per token, no sums, no bits."""
    subject.rests_on(losses_are_told)
    expected = math.log(subject.draft.spec.model.vocab_size)
    found = subject.losses()[1]
    near = abs(found - expected) < CHANCE_NATS
    require(
        near, f"the first loss is {found:.3f}; expected about ln {subject.draft.spec.model.vocab_size}: {expected:.3f}"
    )


def training_lowers_the_loss(subject: FrameworkSubject) -> None:
    """On a text of one sentence the loss falls within a few steps."""
    subject.rests_on(losses_are_told)
    losses = list(subject.losses().values())
    limit = losses[0] * (1 - LEARNT_SHARE)
    require(
        losses[-1] < limit,
        f"from {losses[0]:.3f} to {losses[-1]:.3f} in {len(losses)} steps; expected below {limit:.3f}",
    )


def _ends(subject: FrameworkSubject) -> Ends:
    subject.rests_on(run_ends_complete)
    ends = subject.ends
    for one in ends.ranks:
        require(one.error is None, f"rank {one.rank}: building or stepping again raised {one.error}")
    return ends


def builds_again_from_the_plan(subject: FrameworkSubject) -> None:
    """A second training of the same plan.json, in other processes, takes steps."""
    if subject.worker.script is None:
        assert _ends(subject)
        return
    subject.rests_on(run_ends_complete)
    result = subject.again.result
    require(result.failure is None, f"run again, it ended {result.status}: {failure_text(result.failure)}")


def same_losses_twice(subject: FrameworkSubject) -> None:
    """The first five losses of two trainings of one plan are the same: weights and data follow from the seed."""
    subject.rests_on(losses_are_told, builds_again_from_the_plan)
    second = list(subject.again.losses.values()) if subject.worker.script is not None else subject.ends.losses
    first, second = list(subject.losses().values())[:SAME_STEPS], second[:SAME_STEPS]
    same = len(first) == len(second) and all(abs(a - b) < SAME_NATS for a, b in zip(first, second, strict=True))
    require(same, f"first {_listed(first)}, then {_listed(second)}")


def _listed(losses: list[float]) -> str:
    return ", ".join(f"{loss:.4f}" for loss in losses)


def first_losses_are_the_contracts(subject: FrameworkSubject) -> None:
    """The first losses are those that the plan's weights (`initial_normal`), tokens (`open_batches`) and AdamW give."""
    subject.rests_on(first_loss_is_chance, training_lowers_the_loss)
    subject.rests_on(same_losses_twice)
    spec = subject.trained.plan.spec
    first_losses = _reference(spec)
    # adapters begin at 0 and are drawn as the framework likes, lower precisions drift: their first loss is the same
    steps = SAME_STEPS if spec.contract.lora is None and spec.contract.precision in CLOSE_NATS else 1
    expected, found = first_losses(subject.trained.plan, steps), list(subject.losses().values())[:steps]
    for step, (ours, theirs) in enumerate(zip(expected, found, strict=True), start=1):
        cause = "another optimiser or other gradients" if step > 1 else "other weights, other tokens or another model"
        same = abs(ours - theirs) < _nats(subject)
        require(same, f"the loss of step {step} is {theirs:.5f}; expected {ours:.5f}: {cause}")


def _reference(spec: RunSpec) -> Callable[[Plan, int], list[float]]:
    """What computes the first losses of a spec's model; Skip if nothing here does."""
    other = "--reference FRAMEWORK compares with another framework"
    if (packing := spec.contract.packing) != "packed":
        raise Skip(f"the kit knows the first losses of packed sequences only, not of {packing} ones; {other}")
    if reference.covers(spec):
        return reference.first_losses
    try:
        from llmperf_testing import transformers_reference
    except ImportError as error:
        missing = f"the first losses of {spec.model.name} need torch and transformers 5 in this environment"
        raise Skip(f"{missing} ({error}); {other}") from None
    if (reason := transformers_reference.uncovered(spec)) is not None:
        raise Skip(f"{reason}; {other}")
    return transformers_reference.first_losses


def losses_are_those_of_the_reference(subject: FrameworkSubject) -> None:
    """The first losses are those of the framework given as reference, trained on the same case."""
    if subject.reference is None:
        raise Skip("no reference is given: --reference FRAMEWORK")
    subject.rests_on(same_losses_twice)
    theirs = subject.by_reference
    failed = failure_text(theirs.result.failure)
    require(theirs.result.failure is None, f"the run of framework {subject.reference!r} failed: {failed}")
    first, second = (list(trial.losses.values())[:SAME_STEPS] for trial in (theirs, subject.trained))
    same = len(first) == len(second) and all(abs(a - b) < _nats(subject) for a, b in zip(first, second, strict=True))
    require(same, f"by {subject.reference} {_listed(first)}; by {subject.name} {_listed(second)}")


def losses_are_those_of_one_rank(subject: FrameworkSubject) -> None:
    """Several ranks train as one does: the first losses of one contract are the same however many ranks share it."""
    subject.rests_on(same_losses_twice)
    lora = subject.trained.plan.spec.contract.lora
    if lora is not None and lora.dropout > 0:
        raise Skip(f"the contract has a dropout of {lora.dropout:g}, which each rank draws for itself")
    alone, ranks = subject.alone, subject.trained.plan.layout.world_size
    require(alone.result.failure is None, f"on one rank the run failed: {failure_text(alone.result.failure)}")
    first, second = (list(one.losses.values())[:SAME_STEPS] for one in (alone, subject.trained))
    same = len(first) == len(second) and all(abs(a - b) < _nats(subject) for a, b in zip(first, second, strict=True))
    require(same, f"on one rank {_listed(first)}; on {ranks} ranks {_listed(second)}")


def _nats(subject: FrameworkSubject) -> float:
    return CLOSE_NATS.get(subject.draft.spec.contract.precision, ROUNDED_NATS)


def errors_come_through(subject: FrameworkSubject) -> None:
    """Left with an error as a context manager, a trainer does not hide the error or raise another."""
    subject.rests_on(builds_again_from_the_plan)
    for one in subject.ends.ranks:
        require(one.leaving_error is None, f"rank {one.rank}: leaving with an error raised {one.leaving_error}")
        require(not one.hides_errors, f"rank {one.rank}: __exit__ returns true, which hides the error; expected None")


def an_error_waits_for_nobody(subject: FrameworkSubject) -> None:
    """A rank that leaves with an error does not wait for the others, which may never come."""
    subject.rests_on(builds_again_from_the_plan)
    for one in subject.ends.ranks:
        took = one.leaving_seconds
        require(took < LEAVING_SECONDS, f"rank {one.rank}: leaving with an error took {took:.0f} s")


def closes_after_an_error_and_twice(subject: FrameworkSubject) -> None:
    """`close()` can be called after an error, and again."""
    subject.rests_on(errors_come_through, an_error_waits_for_nobody)
    for one in subject.ends.ranks:
        require(one.close_error is None, f"rank {one.rank}: closing raised {one.close_error}")


def evaluation_is_figures(subject: FrameworkSubject) -> None:
    """`evaluate()` gives finite numbers by name, or an iterator of such; none at all is fine."""
    subject.rests_on(builds_again_from_the_plan)
    for one in subject.ends.ranks:
        require(one.evaluation_error is None, f"rank {one.rank}: evaluate() {one.evaluation_error}")


TRAINING = (
    run_ends_complete,
    tokens_add_up,
    losses_are_told,
    first_loss_is_chance,
    training_lowers_the_loss,
    builds_again_from_the_plan,
    same_losses_twice,
    first_losses_are_the_contracts,
    losses_are_those_of_the_reference,
    losses_are_those_of_one_rank,
    errors_come_through,
    an_error_waits_for_nobody,
    closes_after_an_error_and_twice,
    evaluation_is_figures,
)
