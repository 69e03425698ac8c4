"""Projections of blocks in fp8: by torchao per tensor and per row, by blocks as DeepSeek-V3 has it.

Emulated products round their operands to fp8 as the device would, and are computed in the dtype of the rest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import llmperf
import torch
from llmperf.types import RunSpec
from llmperf_torchkit.precision import BLOCK, compute_dtype, torchao
from torch import nn
from torch.nn import functional

from llmperf_pytorch.decoder.feed_forward import Projection

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
