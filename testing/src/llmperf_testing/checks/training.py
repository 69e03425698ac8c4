"""How a framework plugin trains: a real run on a tiny model, and its losses in every step, whatever it is fed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from llmperf.types.result import Failure

from llmperf_testing.check import ContractError, Skip, check, require
from llmperf_testing.checks.environment import environment_is_text
from llmperf_testing.checks.planning import agent_is_an_argv, files_stay_in_the_run_folder, plans_the_default_case
from llmperf_testing.framework import FrameworkSubject, Trained

BEFORE_A_RUN = (plans_the_default_case, agent_is_an_argv, files_stay_in_the_run_folder, environment_is_text)


@check(*BEFORE_A_RUN)
def run_ends_complete(subject: FrameworkSubject) -> None:
    """A run as `llmperf run` makes it, from plan.json in processes of its own, ends with a complete result."""
    result = subject.trained.result
    require(result.status in ("complete", "ok"), f"the run ended {result.status}: {failure_text(result.failure)}")


def failure_text(failure: Failure | None) -> str:
    """A run's failure and the last line of the rank's log, in one line; empty if there is none."""
    if failure is None:
        return ""
    last = next((line.strip() for line in reversed(failure.log_tail) if line.strip()), "")
    text = f"{failure.reason}: {failure.exception or ''} {failure.message}"
    return f"{text}; the last line of its log: {last!r}" if last and last not in failure.message else text


@check(*BEFORE_A_RUN)
def tokens_add_up(subject: FrameworkSubject) -> None:
    """The tokens that the ranks report for a step are together the step's."""
    if not subject.trained.steps:
        raise Skip("the run made no step")
    expected = subject.trained.plan.batch.tokens_per_step
    for step, records in subject.trained.steps.items():
        found = sum(one.tokens for one in records)
        require(found == expected, f"step {step}: {found} tokens over all ranks; expected {expected}")


@check(run_ends_complete)
def losses_are_told(subject: FrameworkSubject) -> None:
    """Each step has a loss on one rank at least."""
    missing = [step for step in subject.trained.steps if step not in subject.trained.losses]
    require(not missing, f"no rank tells the loss of steps {missing}")


@check(run_ends_complete)
def builds_again_from_the_plan(subject: FrameworkSubject) -> None:
    """A second training of the same plan.json, in other processes, takes steps."""
    if subject.worker.script is not None:
        result = subject.again.result
        require(result.failure is None, f"run again, it ended {result.status}: {failure_text(result.failure)}")
        return
    for one in subject.ends.ranks:
        require(one.error is None, f"rank {one.rank}: building or stepping again raised {one.error}")


CHANCE_NATS = 0.35
"""How far the first loss may be from that of equal chances."""
LEARNT_SHARE = 0.05
"""By this share the loss falls at least, on a text of one sentence."""
SAME_NATS = 1e-3
CLOSE_NATS = {"fp32": 1e-4}
"""How near losses are that differ by rounding alone, where every product is exact: in the first steps."""
FIRST_STEPS = 5
LATER, WITH_OTHER_TOKENS = 10, 100
"""How many times as far apart they may be in later steps, and once other tokens come: AdamW divides by the gradients so
far, and those of tokens that never came are as small as rounding."""
ROUNDED_NATS = 2e-2
"""How near losses are in lower precisions."""
ROUNDED_STEPS = 5
"""Steps that are compared in lower precisions, whose losses drift."""
NORM_SHARE = 2e-2
"""How near norms of gradients are, as a share."""


@check(losses_are_told)
def first_loss_is_chance(subject: FrameworkSubject) -> None:
    """Before anything is learnt the loss is the logarithm of the vocabulary: mean nats per token, no sums, no bits."""
    vocabulary, found = subject.draft.spec.model.vocab_size, subject.trained.losses[1]
    expected = math.log(vocabulary)
    near = abs(found - expected) < CHANCE_NATS
    require(near, f"the first loss is {found:.3f}; expected about ln {vocabulary}: {expected:.3f}")


@check(losses_are_told)
def training_lowers_the_loss(subject: FrameworkSubject) -> None:
    """On a text of one sentence the loss falls within a few steps."""
    losses = list(subject.trained.losses.values())
    limit = losses[0] * (1 - LEARNT_SHARE)
    fell = f"from {losses[0]:.3f} to {losses[-1]:.3f} in {len(losses)} steps"
    require(losses[-1] < limit, f"{fell}; expected below {limit:.3f}")


@check(losses_are_told, builds_again_from_the_plan)
def same_losses_twice(subject: FrameworkSubject) -> None:
    """The losses of two trainings of one plan are the same: weights and data follow from the seed."""
    script = subject.worker.script is not None
    second = list(subject.again.losses.values()) if script else subject.ends.losses
    if not script and subject.late is not None:
        second = second[: subject.late.first_step - 1]
    steps = min(len(second), _steps_compared(subject))
    first, second = list(subject.trained.losses.values())[:steps], second[:steps]
    same = len(first) == len(second) > 0 and all(abs(a - b) < SAME_NATS for a, b in zip(first, second, strict=True))
    require(same, f"first {_listed(first)}, then {_listed(second)}")


def _listed(losses: Sequence[float]) -> str:
    return ", ".join(f"{loss:.4f}" for loss in losses)


@check(first_loss_is_chance, training_lowers_the_loss, same_losses_twice)
def losses_are_the_contracts(subject: FrameworkSubject) -> None:
    """Every loss is that of the plan's weights (`initial_normal`), tokens (`open_batches`) and AdamW."""
    found = list(subject.trained.losses.values())[: _steps_known(subject)]
    _require_same(subject, subject.expected(len(found)).losses, found)


@check(losses_are_the_contracts)
def losses_follow_the_tokens(subject: FrameworkSubject) -> None:
    """Fed with other tokens from some step on, drawn while the ranks train, the losses are those of these tokens."""
    losses, late = subject.ends.losses, subject.late
    steps = len(losses) if late is None else _steps_known(subject)
    if late is None or steps < late.first_step:
        raise Skip("the kit knows no losses of such steps with tokens of its own")
    _require_same(subject, subject.expected(steps, late=True).losses, losses[:steps], "; the kit drew its tokens")


def _require_same(
    subject: FrameworkSubject, expected: Sequence[float], found: Sequence[float], addition: str = ""
) -> None:
    require(len(expected) == len(found), f"{len(found)} steps have a loss; expected {len(expected)}")
    for step, (ours, theirs) in enumerate(zip(expected, found, strict=True), start=1):
        cause = "another optimiser or other gradients" if step > 1 else "other weights, other tokens or another model"
        same = abs(ours - theirs) < _nats(subject, step, late=bool(addition))
        require(same, f"the loss of step {step} is {theirs:.5f}; expected {ours:.5f}: {cause}{addition}")


def _steps_known(subject: FrameworkSubject) -> int:
    """Steps whose losses a reference gives: adapters begin at 0 and are drawn as the framework likes."""
    contract = subject.trained.plan.spec.contract
    return contract.steps if contract.lora is None and contract.precision in CLOSE_NATS else 1


def _steps_compared(subject: FrameworkSubject) -> int:
    contract = subject.trained.plan.spec.contract
    return contract.steps if contract.precision in CLOSE_NATS else ROUNDED_STEPS


@check(losses_follow_the_tokens)
def norms_are_the_contracts(subject: FrameworkSubject) -> None:
    """Where it reports norms of gradients, they are those of the whole gradient before clipping."""
    reported = [norms for one in subject.ends.ranks if None not in (norms := one.grad_norms)]
    if not reported:
        raise Skip("it reports no norms of gradients")
    steps = _steps_known(subject)
    if steps == 1:
        raise Skip("the kit knows the norms of a whole model in fp32 only")
    expected = subject.expected(steps, late=True).grad_norms
    for norms in reported:
        for step, (ours, theirs) in enumerate(zip(expected, norms, strict=False), start=1):
            near = theirs is not None and abs(ours - theirs) < NORM_SHARE * ours
            require(near, f"the norm of step {step} is {theirs:.5f}; expected {ours:.5f}")


@check(losses_follow_the_tokens)
def sequences_have_their_losses(subject: FrameworkSubject) -> None:
    """Where it offers `first_losses()`, each is the loss of its sequence of step 1."""
    layout = subject.trained.plan.layout
    offered = [(layout.data_parallel_rank(one.rank), one) for one in subject.ends.ranks if one.sequences]
    if not offered:
        raise Skip("it offers no first_losses()")
    expected = subject.expected(_steps_known(subject), late=True).sequences
    if not expected:
        raise Skip("the reference gives no losses of sequences")
    for rank, end in offered:
        ours, theirs = expected[rank], end.sequences or ()
        require(len(ours) == len(theirs), f"rank {end.rank}: {len(theirs)} losses of step 1; expected {len(ours)}")
        for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            near = abs(one - other) < _nats(subject, 1)
            require(near, f"rank {end.rank}: sequence {place} has a loss of {other:.5f}; expected {one:.5f}")


@check()
def losses_are_those_of_the_reference(subject: FrameworkSubject) -> None:
    """The losses are those of the framework given as reference, trained on the same case."""
    if subject.reference is None:
        raise Skip("no reference is given: --reference FRAMEWORK")
    subject.rests_on(same_losses_twice)
    name = subject.reference
    _require_near(
        subject, subject.by_reference, f"the run of framework {name!r} failed", f"by {name}", f"by {subject.name}"
    )


@check(same_losses_twice)
def losses_are_those_of_one_rank(subject: FrameworkSubject) -> None:
    """Several ranks train as one does: the losses of one contract are the same however many ranks share it."""
    if _as_the_reference(subject):
        return
    lora = subject.trained.plan.spec.contract.lora
    if lora is not None and lora.dropout > 0:
        raise Skip(f"the contract has a dropout of {lora.dropout:g}, which each rank draws for itself")
    ranks = subject.trained.plan.layout.world_size
    _require_near(subject, subject.alone, "on one rank the run failed", "on one rank", f"on {ranks} ranks")


def _as_the_reference(subject: FrameworkSubject) -> bool:
    if _steps_known(subject) == 1:
        return False
    try:
        subject.run(losses_are_the_contracts)
    except (Skip, ContractError):
        return False
    return True


def _require_near(subject: FrameworkSubject, other: Trained, failed: str, there: str, here: str) -> None:
    """ContractError unless another run has the same losses; it tells where each run was."""
    require(other.result.failure is None, f"{failed}: {failure_text(other.result.failure)}")
    first, second = (list(one.losses.values())[: _steps_compared(subject)] for one in (other, subject.trained))
    pairs = enumerate(zip(first, second, strict=False), start=1)
    near = len(first) == len(second) and all(abs(a - b) < _nats(subject, step) for step, (a, b) in pairs)
    require(near, f"{there} {_listed(first)}; {here} {_listed(second)}")


def _nats(subject: FrameworkSubject, step: int, *, late: bool = False) -> float:
    """How far apart losses of a step may be; `late` if the kit draws tokens of its own from some step on."""
    close = CLOSE_NATS.get(subject.draft.spec.contract.precision)
    if close is None:
        return ROUNDED_NATS
    if late and subject.late is not None and step >= subject.late.first_step:
        return WITH_OTHER_TOKENS * close
    return close if step <= FIRST_STEPS else LATER * close
