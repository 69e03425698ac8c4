"""Causal attention: as separate operations, by torch's choice of kernel, or by a kernel of its by name; ALiBi's bias.

All give the same values. None reads values from the device, so that the host never waits.
ALiBi: Press et al., ICLR 2022. FlexAttention: Dong et al. 2024, arXiv 2412.05496.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

Attention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None], torch.Tensor]
"""Queries [batch, heads, seq_len, width], keys and values (their heads may be fewer), bias or None, to the same.

The bias is what `position_bias` makes for the kernel.
"""


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


def cudnn_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """The same with cuDNN's kernel and no other; RuntimeError where it cannot be used."""
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return sdpa_attention(query, key, value, bias)


def efficient_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """The same with torch's memory-efficient kernel and no other, which has 32 bits and biases but no grouped keys."""
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        return sdpa_attention(query, *_repeated(query, key, value), bias)


def flex_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    slopes: torch.Tensor | None = None,
    window: int | None = None,
) -> torch.Tensor:
    """The same with a kernel that torch compiles: ALiBi from its slopes [heads], without a bias in memory.

    Each position sees itself and the `window` - 1 before it; all before it if `window` is None. Blocks that the mask
    leaves out are not computed.
    """
    from torch.nn.attention import flex_attention as flex

    def alibi(score: Any, batch: Any, head: Any, row: Any, column: Any) -> Any:
        assert slopes is not None
        return score - slopes[head] * (row - column)

    # torch runs it without a compiler only on CPUs, where there is no backward pass
    attend: Callable[..., torch.Tensor] = flex.flex_attention if query.device.type == "cpu" else _compiled_flex()
    return attend(
        query,
        key,
        value,
        score_mod=None if slopes is None else alibi,
        block_mask=_block_mask(query.shape[-2], window, query.device),
        enable_gqa=query.shape[1] != key.shape[1],
    )


@lru_cache(maxsize=1)
def _compiled_flex() -> Callable[..., torch.Tensor]:
    from torch.nn.attention import flex_attention as flex

    compiled: Callable[..., torch.Tensor] = torch.compile(flex.flex_attention, dynamic=False)
    return compiled


@lru_cache(maxsize=4)
def _block_mask(seq_len: int, window: int | None, device: torch.device) -> BlockMask:
    """Which blocks of scores are computed, for all layers and steps."""
    from torch.nn.attention.flex_attention import create_block_mask

    def visible(batch: Any, head: Any, row: Any, column: Any) -> Any:
        return row >= column if window is None else (row >= column) & (row - column < window)

    return create_block_mask(visible, None, None, seq_len, seq_len, device=str(device))


def eager_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """The same as separate operations: all scores are kept for the backward pass."""
    key, value = _repeated(query, key, value)
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    if bias is None:
        ahead = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(ahead, float("-inf"))
    else:
        scores = scores + bias
    return scores.softmax(-1, dtype=torch.float32).to(value.dtype) @ value


def _repeated(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values with as many heads as the queries."""
    groups = query.shape[1] // key.shape[1]
    if groups == 1:
        return key, value
    return key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)


ATTENTION: dict[str, Attention] = {
    "auto": sdpa_attention,
    "sdpa": sdpa_attention,
    "flash": flash_attention,
    "efficient": efficient_attention,
    "cudnn": cudnn_attention,
    "flex": flex_attention,
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


def position_bias(attention: str, slopes: torch.Tensor, seq_len: int, dtype: torch.dtype) -> torch.Tensor:
    """What a kernel takes for ALiBi: the slopes themselves, or the whole bias of the scores."""
    return slopes if attention == "flex" else causal_alibi(slopes, seq_len, dtype)


def causal_alibi(slopes: torch.Tensor, seq_len: int, dtype: torch.dtype) -> torch.Tensor:
    """What is added to the scores, [1, heads, seq_len, seq_len]: -slope x distance, minus infinity ahead."""
    places = torch.arange(seq_len, device=slopes.device)
    distance = places[:, None] - places[None, :]
    bias = -slopes.float()[:, None, None] * distance
    return bias.masked_fill(distance < 0, float("-inf")).to(dtype)[None]
