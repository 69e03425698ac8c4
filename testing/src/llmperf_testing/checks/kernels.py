"""The kernels that a framework claims, against the operations that a step calls by torch's profiler."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from llmperf.types import Plan

from llmperf_testing.check import Skip, require
from llmperf_testing.checks.training import builds_again_from_the_plan, ends_of
from llmperf_testing.framework import FrameworkSubject
from llmperf_testing.trials import Ends

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


def attention_ran_as_claimed(subject: FrameworkSubject) -> None:
    """A step calls the attention that the plan's `attention` and the trainer's `kernels` name."""
    subject.rests_on(builds_again_from_the_plan)
    _require_attention(subject.runnable(), ends_of(subject))


def eager_attention_is_separate_operations(subject: FrameworkSubject) -> None:
    """With `attention=eager`, where it can be set, a step calls no fused attention."""
    subject.rests_on(builds_again_from_the_plan)
    assert _operations(ends_of(subject))
    plan, ends = subject.eager
    for rank in ends.ranks:
        require(rank.error is None, f"with attention=eager, building or stepping raised {rank.error}")
    _require_attention(plan, ends)


def fused_operations_ran_as_claimed(subject: FrameworkSubject) -> None:
    """A step calls each of the plan's `fused_ops` and a fused optimiser, and none that `kernels` calls separate."""
    subject.rests_on(builds_again_from_the_plan)
    ends = ends_of(subject)
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
    operations = _operations(ends)
    claims = list(_attention_claims(plan, _kernels(ends)))
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


def _attention_claims(plan: Plan, kernels: Mapping[str, str]) -> Iterator[str]:
    if plan.spec.tuning.attention != "auto":
        yield plan.spec.tuning.attention
    if "attention" in kernels:
        yield kernels["attention"]


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


KERNELS = (attention_ran_as_claimed, eager_attention_is_separate_operations, fused_operations_ran_as_claimed)
