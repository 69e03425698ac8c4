"""Causal attention in three ways that give the same: step by step, Paddle's choice of kernel, or its flash kernel."""

from __future__ import annotations

import math
from collections.abc import Callable

import paddle
from paddle.nn import functional

Attention = Callable[[paddle.Tensor, paddle.Tensor, paddle.Tensor], paddle.Tensor]
"""Queries [batch, seq_len, heads, width], keys and values (their heads may be fewer), to the shape of the queries."""


def sdpa_attention(query: paddle.Tensor, key: paddle.Tensor, value: paddle.Tensor) -> paddle.Tensor:
    """`scaled_dot_product_attention`."""
    key, value = _repeated(query, key, value)
    return functional.scaled_dot_product_attention(query, key, value, is_causal=True)


def flash_attention(query: paddle.Tensor, key: paddle.Tensor, value: paddle.Tensor) -> paddle.Tensor:
    """FlashAttention-2, which takes grouped keys as they are."""
    from paddle.nn.functional.flash_attention import flash_attention as kernel

    return kernel(query, key, value, causal=True)[0]


def eager_attention(query: paddle.Tensor, key: paddle.Tensor, value: paddle.Tensor) -> paddle.Tensor:
    """The same as separate operations, the softmax in float32: all scores are kept for the backward pass."""
    key, value = _repeated(query, key, value)
    query, key, value = (one.transpose([0, 2, 1, 3]) for one in (query, key, value))
    scores = paddle.matmul(query, key, transpose_y=True) / math.sqrt(query.shape[-1])
    with paddle.amp.auto_cast(enable=False):
        ahead = paddle.full(scores.shape[-2:], float("-inf"), dtype="float32").triu(1)
        weights = functional.softmax(scores.astype("float32") + ahead, axis=-1).astype(value.dtype)
    return paddle.matmul(weights, value).transpose([0, 2, 1, 3])


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
