"""FlexAttention on tensors without data: one operation forward and one backward, in place of the compiled kernels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch

from llmperf_pytorch import attention


@contextmanager
def flex_attention_by_pairs() -> Iterator[str]:
    """FlexAttention's compiled kernels, which torch has for few types of devices, are single operations."""
    with (
        patch.object(attention, "_compiled_flex", lambda: _run),
        patch.object(attention, "block_mask", lambda seq_len, window, _: visible_pairs(seq_len, window)),
    ):
        yield "FlexAttention: one operation each way, which leaves out masked pairs"


def visible_pairs(seq_len: int, window: int | None) -> int:
    """Pairs of query and key that a causal mask with a window leaves, each diagonal counted half."""
    width = seq_len if window is None else min(window, seq_len)
    return width * (2 * seq_len - width) // 2


def _run(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **options: Any) -> Any:
    output, log_sums = _forward(query, key, value, options["block_mask"])
    return (output, log_sums) if options["return_lse"] else output


@torch.library.custom_op("llmperf::flex_attention", mutates_args=())
def _forward(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, pairs: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention and, in float32, the logarithms of the sums of its rows."""
    raise RuntimeError("a fake tensor has no kernel")


@_forward.register_fake
def _(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, pairs: int) -> tuple[torch.Tensor, torch.Tensor]:
    rows = query.shape[:-1]
    return query.new_empty((*rows, value.shape[-1])), query.new_empty(rows, dtype=torch.float32)


@torch.library.custom_op("llmperf::flex_attention_backward", mutates_args=())
def _backward(
    gradient: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    output: torch.Tensor,
    log_sums: torch.Tensor,
    pairs: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of queries, keys and values."""
    raise RuntimeError("a fake tensor has no kernel")


@_backward.register_fake
def _(
    gradient: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    output: torch.Tensor,
    log_sums: torch.Tensor,
    pairs: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    *tensors, ctx.pairs = inputs
    ctx.save_for_backward(*tensors, *output)


def _gradients(ctx: Any, gradient: torch.Tensor, _: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    return *_backward(gradient, *ctx.saved_tensors, ctx.pairs), None


_forward.register_autograd(_gradients, setup_context=_save)
