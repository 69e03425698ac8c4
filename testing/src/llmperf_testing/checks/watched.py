"""How a framework's ranks train: data in their step, true clocks and events, the kernels that it claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from llmperf.types import Plan

from llmperf_testing.check import Skip, check, require
from llmperf_testing.checks.training import builds_again_from_the_plan, run_ends_complete
from llmperf_testing.framework import Ends, FrameworkSubject

STEPS_AHEAD = 1
"""Data may be drawn so many steps before the step that trains on them."""
RATE_SHARE = 0.02
RATE_SECONDS = 0.012
"""By so much clocks may differ: the kernel stamps files to a hundredth of a second."""
WINDOW_SHARE, WINDOW_SECONDS = 0.02, 0.02
"""By so much the measured window may be longer than the steps in it."""


@check(builds_again_from_the_plan)
def data_are_drawn_in_their_step(subject: FrameworkSubject) -> None:
    """Each micro batch is drawn once, in its step or the one before, by a rank of each data-parallel group."""
    ends = subject.ends
    batch, contract = subject.trained.plan.batch, subject.trained.plan.spec.contract
    drew = set()
    for one in ends.ranks:
        counted = Counter(draw.index for draw in one.draws)
        again = next((index for index, times in counted.items() if times > 1), None)
        require(again is None, f"rank {one.rank} drew micro batch {again} {counted[again or 0]} times")
        for draw in one.draws:
            due = draw.index // batch.gradient_accumulation + 1
            when = f"in step {draw.step}" if draw.step else "while the trainer was built"
            within = due - STEPS_AHEAD <= draw.step <= due
            require(
                within, f"rank {one.rank} drew micro batch {draw.index} {when}; expected step {due}, or the one before"
            )
        if len(one.draws) >= contract.steps * batch.gradient_accumulation:
            drew.add(subject.trained.plan.layout.data_parallel_rank(one.rank))
    missing = sorted(set(range(batch.data_parallel)) - drew)
    each = contract.steps * batch.gradient_accumulation
    require(not missing, f"no rank of data-parallel ranks {missing} drew all {each} micro batches in its own process")


@check(builds_again_from_the_plan)
def clocks_run_at_their_rate(subject: FrameworkSubject) -> None:
    """In the ranks, the clocks agree with the times that the kernel gives files, and events with the clock, to 2 %."""
    ends = subject.ends
    if ends.clock_was_set:
        raise Skip("the host's clock was set in the meantime")
    for one in ends.ranks:
        for timed in one.clocks:
            slack = RATE_SECONDS + RATE_SHARE * timed.most_seconds
            near = timed.least_seconds - slack < timed.seconds < timed.most_seconds + slack
            other = "the host's clock" if timed.name.startswith("events") else timed.name
            told = "events of the device" if timed.name.startswith("events") else "files"
            found = f"{told} say {timed.seconds:.3f} s, {other} {timed.least_seconds:.3f} to {timed.most_seconds:.3f} s"
            require(near, f"rank {one.rank}: {found}")


@check(builds_again_from_the_plan)
def functions_of_the_core_stay(subject: FrameworkSubject) -> None:
    """It replaces no function of llmperf and no clock in the ranks."""
    for one in subject.ends.ranks:
        names = ", ".join(one.replaced[:3])
        require(not one.replaced, f"rank {one.rank}: {names} {'is' if len(one.replaced) == 1 else 'are'} replaced")


@check(run_ends_complete)
def steps_fill_the_window(subject: FrameworkSubject) -> None:
    """The measured steps are together as long as the measured window."""
    result = subject.trained.result
    window = result.metrics.window_seconds if result.metrics else None
    steps = [
        max(one.step_seconds for one in records) for records in subject.trained.steps.values() if records[0].measured
    ]
    if window is None:
        raise Skip("the run has no measured window")
    total = sum(steps)
    near = total > window * (1 - WINDOW_SHARE) - WINDOW_SECONDS
    require(near, f"{len(steps)} steps of {total:.4f} s in a window of {window:.4f} s")


ATTENTION = {
    "sdpa": "scaleddotproduct",
    "scaled_dot_product": "scaleddotproduct",
    "flash": "flashatt",
    "efficient": "efficientattention",
    "cudnn": "cudnnattention",
}
"""Parts of the names of operations, by words of a claim; names are compared in lower case without underscores."""
FUSED = {
    "rms_norm": ("rmsnorm",),
    "rope": ("rope", "rotary"),
    "swiglu": ("swiglu", "silumul", "siluandmul"),
    "cross_entropy": ("crossentropy",),
    "optimizer": ("fusedadam",),
}
"""The same of fused operations."""
SEPARATE = ("eager", "separate", "unfused", "not fused")
"""Words that claim several operations."""
NOT_FUSED = ("aten::cross_entropy_loss",)
"""Operations of torch that call separate ones, and hold all logits."""
PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::_grouped_mm", "aten::_scaled_mm")
COMPILED = ("torch-compiled region", "compiledfunction")
"""Regions of torch.compile: their operations have no names of their own."""


@check(builds_again_from_the_plan)
def attention_ran_as_claimed(subject: FrameworkSubject) -> None:
    """A step calls the attention that the plan's `attention` and the trainer's `kernels` name."""
    _require_attention(subject.runnable(), subject.ends)


@check(builds_again_from_the_plan)
def eager_attention_is_separate_operations(subject: FrameworkSubject) -> None:
    """With `attention=eager`, where it can be set, a step calls no fused attention."""
    assert _operations(subject.ends)
    plan, ends = subject.eager
    for rank in ends.ranks:
        require(rank.error is None, f"with attention=eager, building or stepping raised {rank.error}")
    _require_attention(plan, ends)


@check(builds_again_from_the_plan)
def fused_operations_ran_as_claimed(subject: FrameworkSubject) -> None:
    """A step calls each of the plan's `fused_ops` and a fused optimiser, and none that `kernels` calls separate."""
    ends = subject.ends
    operations, claims = _operations(ends), _kernels(ends)
    unseen = []
    for name in (one for one, text in claims.items() if _separate(text)):
        if found := _named(operations, FUSED.get(name, (_plain(name),))):
            require(False, f"kernels has {name} by {claims[name]!r}; a step called {found[0]}")
    fused = list(subject.runnable().worker.fused_ops)
    optimizer = claims.get("optimizer", "")
    if "fused" in optimizer.lower() and not _separate(optimizer):
        fused.append("optimizer")
    for name in fused:
        if _named(operations, FUSED.get(name, (_plain(name),))):
            continue
        elsewhere = name not in FUSED or (name == "optimizer" and "torch" not in optimizer)
        if elsewhere or _compiled(operations):
            unseen.append(name)
            continue
        claim = f"kernels has optimizer by {optimizer!r}" if name == "optimizer" else f"fused_ops has {name}"
        require(False, f"{claim}; expected an operation with {FUSED[name][0]} in its name, found none in a step")
    if unseen:
        raise Skip(f"torch's profiler does not see whether these are fused: {', '.join(unseen)}")
    if not fused:
        raise Skip("it claims no fused operation")


def _require_attention(plan: Plan, ends: Ends) -> None:
    operations, kernels, asked = _operations(ends), _kernels(ends), plan.spec.tuning.attention
    claims = [asked] * (asked != "auto") + [kernels["attention"]] * ("attention" in kernels)
    if not claims:
        raise Skip("attention is auto, and the trainer has no kernels that name it")
    found = _named(operations, ATTENTION.values())
    for claim in claims:
        if _separate(claim):
            require(not found, f"attention is {claim!r}; a step called {', '.join(found)}")
            continue
        parts = [part for word, part in ATTENTION.items() if word in claim.lower()]
        if not parts:
            raise Skip(f"the kit knows no operation of attention {claim!r}")
        if not _named(operations, parts) and _compiled(operations):
            raise Skip("torch's profiler does not see which attention is in a compiled block")
        called = f"it called {', '.join(found)}" if found else "it called no fused attention"
        require(_named(operations, parts), f"attention is {claim!r}; found another in a step: {called}")


def _operations(ends: Ends) -> Sequence[str]:
    """Names of what the ranks called; Skip where torch does not compute."""
    operations = sorted({name for rank in ends.ranks for name in rank.operations or ()})
    if not any(name in PRODUCTS for name in operations):
        raise Skip("its steps compute no matrix product by torch, whose profiler names the operations")
    return operations


def _kernels(ends: Ends) -> Mapping[str, str]:
    return {name: text for rank in ends.ranks for name, text in rank.kernels.items()}


def _named(operations: Sequence[str], parts: Collection[str]) -> list[str]:
    return [name for name in operations if name not in NOT_FUSED and any(part in _plain(name) for part in parts)]


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def _separate(claim: str) -> bool:
    return any(word in claim.lower() for word in SEPARATE)


def _compiled(operations: Sequence[str]) -> bool:
    return any(part in name.lower() for name in operations for part in COMPILED)
