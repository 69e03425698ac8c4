"""Causal attention: as separate operations, by torch's choice of kernel, or by a kernel of its by name.

All give the same values. None reads values from the device, so that the host never waits.
FlexAttention: Dong et al. 2024, arXiv 2412.05496.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from llmperf_torchkit.precision import compute_dtype
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

Attention = Callable[..., torch.Tensor]
"""Queries [batch, heads, seq_len, width], keys and values (their heads may be fewer), a bias or None, a scale or None,
to [batch, heads, seq_len, width of values].

A bias is added to the scores or, of booleans, says which keys a query sees; without one attention is causal. Scores are
multiplied by the scale, by default 1 / sqrt(width).
"""
SINK_CHANNELS = 8
"""Channels that queries and keys have more with a sink: flash kernels take multiples of 8."""


def attend(
    kernel: str,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    bias: torch.Tensor | None = None,
    scale: float | None = None,
    window: int | None = None,
    sinks: torch.Tensor | None = None,
    mask: BlockMask | None = None,
) -> torch.Tensor:
    """Attention by the kernel of a `tuning.attention`.

    `bias` is what the kernel takes for positions and windows (`decoder.positions`), and `mask` the `block_mask` of
    FlexAttention, which is made here if it is None. `sinks` [heads] are scores that
    take a share of attention and add nothing; a bias of booleans then begins with their row and column.
    """
    if kernel == "flex":
        mask = block_mask(query.shape[-2], window, query.device) if mask is None else mask
        return flex_attention(query, key, value, mask, bias, scale, sinks)
    if sinks is None:
        return ATTENTION[kernel](query, key, value, bias, scale)
    width, value_width = query.shape[-1], value.shape[-1]
    scale = width**-0.5 if scale is None else scale
    with_sink = _with_sink(query, key, value, sinks / scale)
    return ATTENTION[kernel](*with_sink, bias, scale)[..., 1:, :value_width]


def _with_sink(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scores: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A first token whose value is 0, and whose score, before it is scaled, is that of its query's head.

    One more channel holds the score in queries and 1 in the sink's key. So every causal kernel has sinks, and their
    gradient.
    """
    width, total = query.shape[-1], query.shape[-1] + SINK_CHANNELS
    channel = scores.to(query.dtype).view(1, -1, 1, 1).expand(*query.shape[:-1], 1)
    queries = functional.pad(torch.cat([query, channel], -1), (0, SINK_CHANNELS - 1, 1, 0))
    places = torch.arange(key.shape[-2] + 1, device=key.device).view(-1, 1)
    channels = torch.arange(total, device=key.device)
    sink = ((places == 0) & (channels == width)).to(key.dtype)
    keys = functional.pad(key, (0, SINK_CHANNELS, 1, 0)) + sink
    return queries, keys, functional.pad(value, (0, total - value.shape[-1], 1, 0))


def sdpa_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None = None,
    scale: float | None = None,
) -> torch.Tensor:
    """`scaled_dot_product_attention`; causal by the bias if there is one.

    On accelerators flash alone takes grouped keys without scores in memory, and it takes no bias and 16 bits only.
    Otherwise keys and values are repeated, for the memory-efficient kernel.
    """
    if query.device.type != "cpu" and (bias is not None or compute_dtype(query) is torch.float32):
        key, value = _repeated(query, key, value)
    return functional.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=bias if bias is None or bias.dtype is torch.bool else bias.to(query.dtype),
        is_causal=bias is None,
        scale=scale,
        enable_gqa=query.shape[1] != key.shape[1],
    )


BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}
"""torch's own kernels by `tuning.attention`: FlashAttention-2, memory-efficient attention, cuDNN's."""


def _only(kernel: str) -> Attention:
    """The same with one kernel of torch's and no other; RuntimeError where it cannot be used.

    Flash wants values as wide as keys: narrower ones are padded. The memory-efficient kernel has no grouped keys.
    """

    def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *others: Any) -> torch.Tensor:
        missing = key.shape[-1] - value.shape[-1] if kernel == "flash" else 0
        if kernel == "efficient":
            key, value = _repeated(query, key, value)
        with sdpa_kernel(BACKENDS[kernel]):
            if not missing:
                return sdpa_attention(query, key, value, *others)
            return sdpa_attention(query, key, functional.pad(value, (0, missing)), *others)[..., :-missing]

    return attention


def flex_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: BlockMask,
    slopes: torch.Tensor | None = None,
    scale: float | None = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """The same with a kernel that torch compiles: ALiBi from its slopes [heads], without a bias in memory.

    Blocks of scores that the mask leaves out are not computed. With sinks [heads], the share of a row's scores that is
    not the sink's.
    """
    from torch.nn.attention import flex_attention as flex

    def alibi(score: Any, batch: Any, head: Any, row: Any, column: Any) -> Any:
        assert slopes is not None
        return score - slopes[head] * (row - column)

    # torch runs it without a compiler only on CPUs, where there is no backward pass
    run: Callable[..., Any] = flex.flex_attention if query.device.type == "cpu" else _compiled_flex()
    result = run(
        query,
        key,
        value,
        score_mod=None if slopes is None else alibi,
        block_mask=mask,
        scale=scale,
        enable_gqa=query.shape[1] != key.shape[1],
        return_lse=sinks is not None,
    )
    if sinks is None:
        attended: torch.Tensor = result
        return attended
    values, log_sums = result
    return values * torch.sigmoid(log_sums - sinks.float().view(1, -1, 1)).unsqueeze(-1).to(values.dtype)


@lru_cache(maxsize=1)
def _compiled_flex() -> Callable[..., Any]:
    from torch.nn.attention import flex_attention as flex

    compiled: Callable[..., Any] = torch.compile(flex.flex_attention, dynamic=False)
    return compiled


@lru_cache(maxsize=4)
def block_mask(seq_len: int, window: int | None, device: torch.device) -> BlockMask:
    """Mask of the blocks of scores that are computed, for all layers and steps. Make it outside of compiled blocks.

    Each position sees itself and the `window` - 1 before it; all before it if `window` is None. Compiled where kernels
    are: as separate operations it would hold seq_len^2 booleans and more.
    """
    from torch.nn.attention.flex_attention import create_block_mask

    def visible(batch: Any, head: Any, row: Any, column: Any) -> Any:
        return row >= column if window is None else (row >= column) & (row - column < window)

    make = create_block_mask if device.type == "cpu" else torch.compile(create_block_mask, dynamic=False)
    made: BlockMask = make(visible, None, None, seq_len, seq_len, device=str(device))
    return made


def eager_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None = None,
    scale: float | None = None,
) -> torch.Tensor:
    """The same as separate operations: all scores are kept for the backward pass."""
    key, value = _repeated(query, key, value)
    scores = query @ key.transpose(-1, -2) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if bias is None:
        bias = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    scores = scores.masked_fill(~bias, float("-inf")) if bias.dtype is torch.bool else scores + bias
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
    "eager": eager_attention,
    **{kernel: _only(kernel) for kernel in BACKENDS},
}
"""By `tuning.attention`; `flex` takes its windows and positions in another form."""
