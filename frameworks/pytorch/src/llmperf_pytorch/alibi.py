"""Attention with linear biases (Press et al., ALiBi, ICLR 2022)."""

from __future__ import annotations

import math

import torch


def alibi_slopes(heads: int) -> list[float]:
    """One slope a head: 2^(-8/n), 2^(-16/n), ...; where heads are no power of two, every second of the next one's."""
    below = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * (head + 1) / below) for head in range(below)]
    between = [2 ** (-4 * (2 * head + 1) / below) for head in range(heads - below)]
    return slopes + between


def causal_alibi(slopes: torch.Tensor, seq_len: int, dtype: torch.dtype) -> torch.Tensor:
    """What is added to the scores, [1, heads, seq_len, seq_len]: -slope x distance, minus infinity ahead."""
    places = torch.arange(seq_len, device=slopes.device)
    distance = places[:, None] - places[None, :]
    bias = -slopes.float()[:, None, None] * distance
    return bias.masked_fill(distance < 0, float("-inf")).to(dtype)[None]
