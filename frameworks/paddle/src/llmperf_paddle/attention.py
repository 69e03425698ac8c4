"""Causal attention in three ways that give the same: step by step, Paddle's choice of kernel, or its flash kernel."""

from __future__ import annotations

import math
from collections.abc import Callable

import paddle
from paddle.nn import functional

Attention = Callable[[paddle.Tensor, paddle.Tensor, paddle.Tensor, int | None], paddle.Tensor]
"""Queries [batch, seq_len, heads, width], keys and values (their heads may be fewer), and the tokens that a query sees,
its own included, None for all before it; to the shape of the queries."""


def sdpa_attention(query: paddle.Tensor, key: paddle.Tensor, value: paddle.Tensor, window: int | None) -> paddle.Tensor:
    """`scaled_dot_product_attention`, with a mask where there is a window."""
    key, value = _repeated(query, key, value)
    if window is None or window >= query.shape[1]:
        return functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    mask = causal_mask(query.shape[1], window).astype(query.dtype)
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def flash_attention(
    query: paddle.Tensor, key: paddle.Tensor, value: paddle.Tensor, window: int | None
) -> paddle.Tensor:
    """FlashAttention-2, which takes grouped keys as they are, and no window."""
    from paddle.nn.functional.flash_attention import flash_attention as kernel

    assert window is None or window >= query.shape[1]  # planning refuses others
    return kernel(query, key, value, causal=True)[0]


def eager_attention(
    query: paddle.Tensor, key: paddle.Tensor, value: paddle.Tensor, window: int | None
) -> paddle.Tensor:
    """The same as separate operations, the softmax in float32: all scores are kept for the backward pass."""
    key, value = _repeated(query, key, value)
    query, key, value = (states.transpose([0, 2, 1, 3]) for states in (query, key, value))
    scores = paddle.matmul(query, key, transpose_y=True) / math.sqrt(query.shape[-1])
    with paddle.amp.auto_cast(enable=False):
        mask = causal_mask(scores.shape[-1], window)
        weights = functional.softmax(scores.astype("float32") + mask, axis=-1).astype(value.dtype)
    return paddle.matmul(weights, value).transpose([0, 2, 1, 3])


def causal_mask(seq_len: int, window: int | None) -> paddle.Tensor:
    """Added to scores, float32 [1, 1, seq_len, seq_len]: 0 where a query sees a key, minus infinity elsewhere."""
    hidden = paddle.full([1, 1, seq_len, seq_len], float("-inf"), dtype="float32")
    ahead = hidden.triu(1)
    return ahead if window is None else ahead + hidden.tril(-window)


def _repeated(query: paddle.Tensor, key: paddle.Tensor, value: paddle.Tensor) -> tuple[paddle.Tensor, paddle.Tensor]:
    groups = query.shape[2] // key.shape[2]
    if groups == 1:
        return key, value
    return key.repeat_interleave(groups, axis=2), value.repeat_interleave(groups, axis=2)


ATTENTION: dict[str, Attention] = {
    "auto": sdpa_attention,
    "sdpa": sdpa_attention,
    "flash": flash_attention,
    "eager": eager_attention,
}
"""By `tuning.attention`."""
