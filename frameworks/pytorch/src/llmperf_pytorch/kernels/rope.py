"""Rotary positions (RoFormer, arXiv 2104.09864), halves rotated as in LLaMA checkpoints: as separate operations, or as
one that keeps only the angles for the backward pass, which is the turn back."""

from __future__ import annotations

from typing import Any

import torch
from llmperf_torchkit.compiled import compiled


def rotate(states: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    """Turn each pair of channels of [batch, heads, seq_len, width] by its position's angle."""
    low, high = states.chunk(2, dim=-1)
    return states * cosines + torch.cat([-high, low], dim=-1) * sines


def _turned(states: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor, back: bool) -> torch.Tensor:
    wide, cosines, sines = states.float(), cosines.float(), sines.float()
    low, high = wide.chunk(2, dim=-1)
    other = torch.cat([high, -low] if back else [-high, low], dim=-1)
    return (wide * cosines + other * sines).to(states.dtype)


_turned_kernel = compiled("rope", _turned)


@torch.library.custom_op("llmperf::rope", mutates_args=())
def rope(
    states: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor, back: bool, by_compiler: bool
) -> torch.Tensor:
    """Turn each pair of channels of [batch, heads, seq_len, width] by its position's angle, or back.

    Cosines and sines: [seq_len, width], both halves equal. One kernel made by the compiler, or four of torch's on half
    the channels each, where separate operations are six on all.
    """
    if by_compiler and (made := _turned_kernel(states, cosines, sines, back)) is not None:
        return made
    turned, half, sign = torch.empty_like(states), states.shape[-1] // 2, -1.0 if back else 1.0
    low, high = states[..., :half], states[..., half:]
    cosines, sines = cosines[..., :half], sines[..., :half]
    torch.mul(low, cosines, out=turned[..., :half]).addcmul_(high, sines, value=-sign)
    torch.mul(high, cosines, out=turned[..., half:]).addcmul_(low, sines, value=sign)
    return turned


@rope.register_fake
def _(states: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor, back: bool, by_compiler: bool) -> torch.Tensor:
    return torch.empty_like(states)


def _keep(ctx: Any, inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor, bool, bool], output: torch.Tensor) -> None:
    _, cosines, sines, ctx.back, ctx.by_compiler = inputs
    ctx.save_for_backward(cosines, sines)


def _backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None, None, None]:
    cosines, sines = ctx.saved_tensors
    return rope(gradient, cosines, sines, not ctx.back, ctx.by_compiler), None, None, None, None


rope.register_autograd(_backward, setup_context=_keep)
