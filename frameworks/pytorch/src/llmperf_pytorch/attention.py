"""Causal attention: as separate operations, by torch's choice of kernel, or by its flash kernel; and ALiBi's bias.

The three give the same values. None reads values from the device, so that the host never waits.
ALiBi: Press et al., ICLR 2022.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

Attention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None], torch.Tensor]
"""Queries [batch, heads, seq_len, width], keys and values (their heads may be fewer), bias or None, to the same."""


def sdpa_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """`scaled_dot_product_attention`; causal by the bias if there is one."""
    return functional.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=None if bias is None else bias.to(query.dtype),
        is_causal=bias is None,
        enable_gqa=query.shape[1] != key.shape[1],
    )


def flash_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """The same with torch's own FlashAttention-2 kernel and no other; RuntimeError where it cannot be used."""
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return sdpa_attention(query, key, value, bias)


def eager_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """The same as separate operations: all scores are kept for the backward pass."""
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    if bias is None:
        ahead = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(ahead, float("-inf"))
    else:
        scores = scores + bias
    return scores.softmax(-1, dtype=torch.float32).to(value.dtype) @ value


ATTENTION: dict[str, Attention] = {
    "auto": sdpa_attention,
    "sdpa": sdpa_attention,
    "flash": flash_attention,
    "eager": eager_attention,
}
"""By `tuning.attention`."""


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
