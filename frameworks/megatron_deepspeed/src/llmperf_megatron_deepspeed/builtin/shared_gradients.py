"""Gradients of weights that every tensor-parallel rank has whole, each from its own heads or positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed

from llmperf_megatron_deepspeed.builtin.tensor_parallel import TensorParallel


def sum_shared_gradients(engine: Any, ranks: TensorParallel) -> None:
    """Have DeepSpeed's pipeline engine sum them over the ranks in each step, before data-parallel ranks do.

    Each rank has the gradients of its own heads in norms of queries and keys, and those of its own positions in all
    such weights if the sequence is divided.
    """
    whole = [parameter for parameter in engine.module.parameters() if parameter.shard.dim is None]
    shared = [parameter for parameter in whole if ranks.sequence or parameter.shard.of_heads]
    for name in ("allreduce_gradients", "_bf16_reduce_grads"):  # the latter with float32 accumulators
        if shared and hasattr(engine, name):
            setattr(engine, name, _after_sum(getattr(engine, name), shared, ranks))


def _after_sum(
    reduce: Callable[..., Any], shared: list[torch.nn.Parameter], ranks: TensorParallel
) -> Callable[..., Any]:
    def sum_and_reduce(*arguments: Any, **named: Any) -> Any:
        gradients = [_gradient(parameter) for parameter in shared]
        together = torch.cat([gradient.flatten().float() for gradient in gradients])
        torch.distributed.all_reduce(together, group=ranks.group)
        parts = together.split([gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))
        return reduce(*arguments, **named)

    return sum_and_reduce


def _gradient(parameter: torch.nn.Parameter) -> torch.Tensor:
    """Where DeepSpeed accumulates: an accumulator of its own, or `grad`."""
    for name in ("_hp_grad", "grad_accum"):
        accumulator: torch.Tensor | None = getattr(parameter, name, None)
        if accumulator is not None:
            return accumulator
    assert parameter.grad is not None  # each rank's positions use all of its norms
    return parameter.grad
