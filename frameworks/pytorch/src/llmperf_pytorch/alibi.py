"""Attention with linear biases (Press et al., ALiBi, ICLR 2022)."""

from __future__ import annotations

import math

import torch


def alibi_slopes(heads: int) -> torch.Tensor:
    """One slope a head, float32 [heads]: 2^(-8/n), 2^(-16/n), ... with n the power of two at or below `heads`.

    The other heads take every second slope of 2n. Made from integers, since `deepspeed.zero.Init` rounds new
    floating-point tensors to the weights' precision.
    """
    below = 2 ** math.floor(math.log2(heads))
    eighths = [8 * (head + 1) for head in range(below)]
    eighths += [4 * (2 * head + 1) for head in range(heads - below)]
    return torch.exp2(-torch.tensor(eighths).float() / below)


def causal_alibi(slopes: torch.Tensor, seq_len: int, dtype: torch.dtype) -> torch.Tensor:
    """What is added to the scores, [1, heads, seq_len, seq_len]: -slope x distance, minus infinity ahead."""
    places = torch.arange(seq_len, device=slopes.device)
    distance = places[:, None] - places[None, :]
    bias = -slopes.float()[:, None, None] * distance
    return bias.masked_fill(distance < 0, float("-inf")).to(dtype)[None]
