"""From a model's facts to a module on the device, with weights that are the same everywhere, and what it recomputes.

Gradient checkpointing wraps a block's `forward`, not its call: hooks, such as those that gather sharded parameters, run
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any

import torch
from llmperf.types import RunSpec, Tuning
from llmperf_torchkit.compiled import compile_blocks
from llmperf_torchkit.precision import default_dtype, held_dtype
from llmperf_torchkit.weights import fill_weights
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from llmperf_pytorch.decoder.model import LanguageModel
from llmperf_pytorch.float8 import scale_projections
from llmperf_pytorch.kernels.choice import NONE_FUSED, Kernels

KEPT = (
    "mm", "addmm", "bmm", "baddbmm", "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention", "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_fused_attention_overrideable",
)  # fmt: skip
"""Operations whose results `recompute = operations` keeps: matrix products and attention."""


def recompute_blocks(blocks: Iterable[torch.nn.Module], tuning: Tuning) -> None:
    """Make every `recompute_every`-th block, from the first on, compute again what the tuning says."""
    if not tuning.gradient_checkpointing:
        return
    contexts = partial(create_selective_checkpoint_contexts, _policy)
    kept: dict[str, Any] = {"context_fn": contexts} if tuning.recompute == "operations" else {}
    for place, block in enumerate(blocks):
        if place % tuning.recompute_every == 0:
            block.forward = partial(_recomputed, block, block.forward, kept)


def _recomputed(
    block: torch.nn.Module, forward: Callable[..., Any], kept: dict[str, Any], *inputs: Any, **named: Any
) -> Any:
    if not (block.training and torch.is_grad_enabled()):
        return forward(*inputs, **named)
    return checkpoint(forward, *inputs, use_reentrant=False, **kept, **named)


def _policy(context: Any, operation: Any, *inputs: Any, **named: Any) -> CheckpointPolicy:
    keep = operation in _kept_operations() or "flex_attention" in str(operation)
    return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE


@cache
def _kept_operations() -> frozenset[Any]:
    """KEPT in this version of torch."""
    packets = (getattr(torch.ops.aten, name, None) for name in KEPT)
    return frozenset(packet.default for packet in packets if packet is not None)


def construct_model(spec: RunSpec, kernels: Kernels = NONE_FUSED) -> torch.nn.Module:
    """The model without meaningful weights, on the default device, in the default dtype.

    `forward(ids)` gives logits [batch, seq_len, vocab_size] of int64 ids [batch, seq_len]; `forward(ids, labels)` gives
    the mean cross entropy.
    """
    model = LanguageModel(spec.model, spec.tuning.attention, kernels, spec.contract)
    scale_projections(blocks_of(model), spec)
    if kernels.compiles_blocks:
        compile_blocks(blocks_of(model))
    recompute_blocks(blocks_of(model), spec.tuning)
    return model


def blocks_of(model: torch.nn.Module) -> list[torch.nn.Module]:
    """The transformer blocks of a model: `model.layers`, in other classes of transformers their longest list."""
    lists = {name: part for name, part in model.named_modules() if isinstance(part, torch.nn.ModuleList)}
    return list(lists.get("model.layers") or max(lists.values(), key=len))


def set_buffers(model: torch.nn.Module, device: torch.device) -> None:
    """Give a model that was made without memory its constants, such as the frequencies of rotary positions."""
    with device:
        for module in model.modules():
            if (make := getattr(module, "set_buffers", None)) is not None:
                make()


def build_model(spec: RunSpec, device: torch.device, kernels: Kernels = NONE_FUSED) -> torch.nn.Module:
    """The model on the device, in the dtype that the recipe has weights updated in, with its initial weights."""
    with device, default_dtype(held_dtype(spec.contract.precision)):
        model = construct_model(spec, kernels)
    fill_weights(model, spec.model, spec.contract.seed)
    return model.train()
