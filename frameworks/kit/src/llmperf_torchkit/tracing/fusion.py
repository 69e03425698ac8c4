"""A model of what a compiler makes of a block's operations: chains that keep intermediate results out of memory.

TorchInductor (Ansel et al. 2024, "PyTorch 2", section 4) joins operations that compute elements one by one, or reduce
rows, into a kernel that reads each input once and writes what is used outside of it. Here the operations between two
others, such as matrix products, are one chain; a sum over a whole tensor ends it, and equal operations on equal inputs
run once. A result whose memory is free when the chain has ended was never written. Memory is traced as without a
compiler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from llmperf.types import Plan
from llmperf.types.tracing import OperationKind, Phase

from llmperf_torchkit.tracing.memory import Allocation, LiveMemory
from llmperf_torchkit.tracing.operations import Work, size_of, tensors_in, work_of, written_arguments

NAME = "chain of operations, one kernel of torch.compile (modelled)"
SEPARATE: frozenset[OperationKind] = frozenset({"matmul", "attention", "embedding", "optimizer"})
"""Kinds whose operations are kernels of their own."""
JOINED = ("llmperf.rope", "llmperf.swiglu", "llmperf.swiglu_backward")
"""Operations outside of `aten` that stand for chains."""
NOT_JOINED = (
    "aten.sort", "aten.argsort", "aten.topk", "aten.scatter", "aten.index_put", "aten.index_add", "aten.cumsum",
    "aten.nonzero", "aten.bincount", "aten._foreach", "aten.masked_select", "aten.unique",
)  # fmt: skip
"""Beginnings of names of operations on places of elements, which no chain takes in."""


class Compiled:
    """Context in which operations are those of a compiled block."""

    def __init__(self) -> None:
        self.inside = False
        self.scope = 0
        """Grows whenever a block is entered or left: chains do not cross it."""

    def turn(self, inside: bool) -> None:
        """Enter or leave a block."""
        self.inside = inside
        self.scope += 1


COMPILED = Compiled()


class _Turn(torch.autograd.Function):
    """The same states. Their gradient enters a block's backward pass, or leaves it."""

    @staticmethod
    def forward(ctx: Any, states: torch.Tensor, inside: bool) -> torch.Tensor:
        ctx.inside = inside
        return states.view_as(states)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        COMPILED.turn(ctx.inside)
        return gradients[0], None


def _marked(forward: Callable[..., torch.Tensor], hidden: torch.Tensor, *others: Any) -> torch.Tensor:
    before = COMPILED.inside
    COMPILED.turn(True)
    try:
        output: torch.Tensor = _Turn.apply(forward(_Turn.apply(hidden, False), *others), True)
        return output
    finally:
        COMPILED.turn(before)


@contextmanager
def chains_of_compiled_blocks() -> Iterator[str]:
    """Blocks that would be compiled are not, and say when they run."""
    from llmperf_torchkit import compiled

    with patch.object(compiled, "compiled_forward", lambda forward: partial(_marked, forward)):
        yield "torch.compile: chains of elementwise operations modelled as one kernel each, in compiled blocks"


def with_recomputed_activations(plan: Plan) -> Plan:
    """The plan with the operation that keeps only its inputs in place of SwiGLU's separate ones, in compiled blocks.

    What elementwise operations give, a compiler computes again in the backward pass rather than keep it.
    """
    if not plan.spec.tuning.compile or plan.spec.model.activation != "swiglu":
        return plan
    fused = tuple(dict.fromkeys((*plan.worker.fused_ops, "swiglu")))
    return replace(plan, worker=replace(plan.worker, fused_ops=fused))


class Chain:
    """Operations that one kernel computes, while they are dispatched."""

    def __init__(self, memory: LiveMemory) -> None:
        self._memory = memory
        self._scope = COMPILED.scope
        self._seen: dict[Hashable, list[Allocation]] = {}
        self._same: dict[int, Allocation] = {}
        self._begin()

    def _begin(self) -> None:
        self._read: dict[int, tuple[Allocation, dict[Hashable, int]]] = {}
        self._made: dict[int, tuple[Allocation, int]] = {}
        self._kinds: Counter[OperationKind] = Counter()
        self._dtype, self._phase, self._ends = "other", "forward", False

    def takes(self, name: str, kind: OperationKind) -> bool:
        """Check whether an operation is part of a chain now."""
        if not COMPILED.inside or kind in SEPARATE or name.startswith(NOT_JOINED):
            return False
        node = torch._C._current_autograd_node()
        if node is not None and "AccumulateGrad" in type(node).__name__:  # the engine adds up a weight's gradient
            return False
        return name.startswith("aten.") or name in JOINED

    def ended(self, takes: bool) -> tuple[OperationKind, Phase, Work] | None:
        """The chain so far, if the next operation is not of it; None without one."""
        other_scope = self._scope != COMPILED.scope
        work = self._work() if self._kinds and (other_scope or self._ends or not takes) else None
        if other_scope:
            self._scope = COMPILED.scope
            self._seen, self._same = {}, {}
        if work is not None:
            self._begin()
        return work

    def add(
        self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, kind: OperationKind,
        phase: Phase,
    ) -> None:  # fmt: skip
        """An operation whose results the memory knows already."""
        results = [tensor for tensor in tensors_in(result) if self._memory.allocation_of(tensor) is not None]
        once = not written_arguments(operation) and torch.Tag.nondeterministic_seeded not in operation.tags
        key = (operation, self._values(args), self._values(tuple(sorted(kwargs.items())))) if once else None
        earlier = self._seen.get(key) if key is not None else None
        if earlier is not None and len(earlier) == len(results):
            for tensor, allocation in zip(results, earlier, strict=True):
                self._same[id(self._memory.allocation_of(tensor))] = allocation
            return
        work = work_of(operation, args, kwargs, result)
        self._kinds[kind] += work.bytes
        self._dtype, self._phase = work.dtype, phase
        inputs = list(tensors_in((args, kwargs)))
        for tensor in inputs:
            read = self._value(tensor)
            if read is not None and id(read) not in self._made:
                views = self._read.setdefault(id(read), (read, {}))[1]
                views[tensor.storage_offset(), tensor.numel()] = size_of(tensor)
        made = [one for tensor in results if (one := self._value(tensor)) is not None]
        for tensor, allocation in zip(results, made, strict=True):
            self._made[id(allocation)] = allocation, size_of(tensor)
        if key is not None:
            self._seen[key] = made
        largest = max((tensor.numel() for tensor in inputs), default=1)
        self._ends = largest > 1 and all(tensor.numel() == 1 for tensor in results)

    def _work(self) -> tuple[OperationKind, Phase, Work] | None:
        written = sum(size for allocation, size in self._made.values() if allocation.freed is None)
        read = sum(min(allocation.bytes, sum(views.values())) for allocation, views in self._read.values())
        moved = read + written
        kind = max(self._kinds, key=lambda name: self._kinds[name])
        return kind, self._phase, Work(self._dtype, 0.0, moved, (), 1)  # type: ignore[return-value]

    def _value(self, tensor: torch.Tensor) -> Allocation | None:
        """The allocation that holds a tensor, or the earlier one that holds the same values."""
        allocation = self._memory.allocation_of(tensor)
        return None if allocation is None else self._same.get(id(allocation), allocation)

    def _values(self, arguments: Any) -> Hashable:
        if isinstance(arguments, torch.Tensor):
            allocation = self._value(arguments)
            held = id(arguments) if allocation is None else allocation.made
            layout = (arguments.storage_offset(), tuple(arguments.shape), arguments.stride(), arguments.dtype)
            return held, arguments._version, layout
        if isinstance(arguments, (list, tuple)):
            return tuple(map(self._values, arguments))
        return repr(arguments)
