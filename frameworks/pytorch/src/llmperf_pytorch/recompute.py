"""Gradient checkpointing: which blocks, and which of their operations, are computed again in the backward pass.

A block's `forward` is wrapped, not its call: hooks, such as those that gather sharded parameters, run once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from llmperf.types import Tuning

KEPT = (
    "aten.mm",
    "aten.addmm",
    "aten.bmm",
    "aten.baddbmm",
    "aten._scaled_dot_product_flash_attention",
    "aten._scaled_dot_product_efficient_attention",
    "aten._scaled_dot_product_cudnn_attention",
    "aten._scaled_dot_product_flash_attention_for_cpu",
    "aten._scaled_dot_product_fused_attention_overrideable",
    "_c10d_functional.all_reduce",
    "_c10d_functional.reduce_scatter_tensor",
)
"""Operations whose results `recompute = operations` keeps: matrix products, attention, sums over ranks."""


def recompute_blocks(blocks: Iterable[torch.nn.Module], tuning: Tuning) -> None:
    """Make every `recompute_every`-th block, from the first on, compute again what the tuning says."""
    if not tuning.gradient_checkpointing:
        return
    kept: dict[str, Any] = {"context_fn": selective_contexts} if tuning.recompute == "operations" else {}
    for place, block in enumerate(blocks):
        if place % tuning.recompute_every == 0:
            block.forward = partial(_recomputed, block, block.forward, kept)


def _recomputed(
    block: torch.nn.Module, forward: Callable[..., Any], kept: dict[str, Any], *inputs: Any, **named: Any
) -> Any:
    if not (block.training and torch.is_grad_enabled()):
        return forward(*inputs, **named)
    return checkpoint(forward, *inputs, use_reentrant=False, **kept, **named)


def selective_contexts() -> Any:
    """The contexts of one forward pass and of its repetition, which finds the results of KEPT again."""
    return create_selective_checkpoint_contexts(_policy)


def _policy(context: Any, operation: Any, *inputs: Any, **named: Any) -> CheckpointPolicy:
    keep = operation in _kept_operations() or "flex_attention" in str(operation)
    return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE


@cache
def _kept_operations() -> frozenset[Any]:
    """KEPT in this version of torch."""
    operations = set()
    for name in KEPT:
        namespace, operation = name.split(".")
        packet = getattr(getattr(torch.ops, namespace), operation, None)
        if packet is not None:
            operations.add(packet.default)
    return frozenset(operations)
