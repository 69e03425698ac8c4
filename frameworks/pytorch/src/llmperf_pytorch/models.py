"""From a model's facts to a module on the device, with weights that are the same everywhere, and what it recomputes.

Gradient checkpointing wraps a block's `forward`, not its call: hooks, such as those that gather sharded parameters, run
once. Projections in fp8 are torchao's per tensor and per row, and by blocks as DeepSeek-V3 has it; emulated products
round their operands to fp8 as the device would, and are computed in the dtype of the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import llmperf
import torch
from llmperf.types import RunSpec, Tuning
from llmperf_torchkit.compiled import compile_blocks
from llmperf_torchkit.precision import BLOCK, compute_dtype, default_dtype, held_dtype, torchao
from llmperf_torchkit.weights import fill_weights
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from llmperf_pytorch.decoder.mixture import Projection
from llmperf_pytorch.decoder.model import LanguageModel
from llmperf_pytorch.kernels.choice import NONE_FUSED, Kernels

LARGEST = torch.finfo(torch.float8_e4m3fn).max


def scale_projections(blocks: list[nn.Module], spec: RunSpec) -> None:
    """Replace the projections of transformer blocks by those of the recipe; nothing for recipes without fp8."""
    recipe, emulate = llmperf.precision_recipe(spec.contract.precision), spec.tuning.emulate_precision
    if recipe.products != "fp8":
        return
    if recipe.scaling == "blockwise":
        for part in [part for block in blocks for part in block.modules()]:
            for name, child in part.named_children():
                if isinstance(child, Projection):
                    setattr(part, name, BlockwiseProjection.of(child, emulate))
        return
    float8 = torchao().float8
    config = replace(float8.Float8LinearConfig.from_recipe_name(recipe.scaling), emulate=emulate)
    for block in blocks:
        float8.convert_to_float8_training(
            block, config=config, module_filter_fn=lambda module, _: isinstance(module, Projection)
        )


class BlockwiseProjection(Projection):
    """A projection whose products have a scale for 1 x 128 activations or gradients and for 128 x 128 weights."""

    emulate: bool

    @classmethod
    def of(cls, projection: Projection, emulate: bool) -> BlockwiseProjection:
        """The same weights."""
        with torch.device("meta"):
            made = cls(projection.in_features, projection.out_features, bias=False)
        made.weight, made.bias, made.emulate = projection.weight, projection.bias, emulate
        return made

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """[..., in_features] to [..., out_features]."""
        dtype = compute_dtype(hidden)
        hidden, weight = hidden.to(dtype), self.weight.to(dtype)
        if self.emulate:
            output: torch.Tensor = EmulatedBlockwise.apply(hidden, weight)
        else:
            from torchao.prototype.blockwise_fp8_training.linear import fp8_blockwise_mm

            output = fp8_blockwise_mm.apply(hidden, weight, BLOCK, dtype, False)
        return output if self.bias is None else output + self.bias.to(dtype)


class EmulatedBlockwise(torch.autograd.Function):
    """The three products of a projection with operands rounded to blocks of fp8 (arXiv:2412.19437, section 3.3)."""

    @staticmethod
    def forward(ctx: Any, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:  # noqa: D102
        ctx.save_for_backward(hidden, weight)
        return functional.linear(rounded(hidden, (1, BLOCK)), rounded(weight, (BLOCK, BLOCK)))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # noqa: D102
        (gradient,) = gradients
        hidden, weight = ctx.saved_tensors
        of_input = rounded(gradient, (1, BLOCK)) @ rounded(weight, (BLOCK, BLOCK))
        rows, inputs = gradient.flatten(0, -2), hidden.flatten(0, -2)
        return of_input, rounded(rows, (BLOCK, 1)).T @ rounded(inputs, (BLOCK, 1))


def rounded(tensor: torch.Tensor, block: tuple[int, int]) -> torch.Tensor:
    """[..., columns] in its own dtype, after blocks of rows x columns were each scaled to fp8 e4m3 and rounded."""
    matrix = tensor.flatten(0, -2).float()
    rows, columns = matrix.shape
    padded = functional.pad(matrix, (0, -columns % block[1], 0, -rows % block[0]))
    blocks = padded.unflatten(1, (-1, block[1])).unflatten(0, (-1, block[0]))
    largest = blocks.abs().amax((1, 3), keepdim=True).clamp(min=1e-12)
    scaled = (blocks * (LARGEST / largest)).to(torch.float8_e4m3fn).float() * (largest / LARGEST)
    return scaled.flatten(2).flatten(0, 1)[:rows, :columns].to(tensor.dtype).view(tensor.shape)


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
