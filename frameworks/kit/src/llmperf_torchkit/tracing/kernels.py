"""Functions of torch that choose a kernel by the device choose as on CUDA; FlexAttention is one operation each way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch.nn import functional

from llmperf_torchkit import optimizers
from llmperf_torchkit.tracing.device import NAME

LARGEST_FLASH_HEAD = 256
"""Width of a head from which torch's flash kernel is not chosen."""
HALF = (torch.bfloat16, torch.float16)
_libraries: list[torch.library.Library] = []


@contextmanager
def kernels_of_accelerators() -> Iterator[str]:
    """`scaled_dot_product_attention` and `rms_norm` by the kernels that CUDA has for them."""
    if not _libraries:  # without a kernel for the device type, torch would take these operations apart
        library = torch.library.Library("aten", "IMPL")
        for name in ("_fused_rms_norm", "silu_backward"):
            library.impl(name, _never_called, "PrivateUse1")
        _libraries.append(library)
    with ExitStack() as stack:
        stack.enter_context(patch.object(functional, "scaled_dot_product_attention", chosen_attention))
        stack.enter_context(patch.object(functional, "rms_norm", rms_norm))
        stack.enter_context(patch.object(optimizers, "FUSED_DEVICES", (*optimizers.FUSED_DEVICES, NAME)))
        yield "kernels of scaled_dot_product_attention, rms_norm and AdamW chosen as on CUDA"


def _never_called(*_: object) -> Any:
    raise RuntimeError("a fake tensor has no kernel")


def rms_norm(
    hidden: torch.Tensor, normalized_shape: Any, weight: torch.Tensor | None = None, eps: float | None = None
) -> torch.Tensor:
    """`torch.nn.functional.rms_norm` as one operation."""
    normed: torch.Tensor = torch.ops.aten._fused_rms_norm(hidden, list(normalized_shape), weight, eps)[0]
    return normed


def chosen_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """`torch.nn.functional.scaled_dot_product_attention`, by the first allowed kernel that takes these inputs."""
    kind, cuda = query.device.type, torch.backends.cuda
    if torch.is_autocast_enabled(kind):
        query, key, value = (tensor.to(torch.get_autocast_dtype(kind)) for tensor in (query, key, value))
    width, groups = query.shape[-1], query.shape[1] // key.shape[1]
    half = query.dtype in HALF
    outputs: tuple[torch.Tensor, ...]
    flash = half and attn_mask is None and width <= LARGEST_FLASH_HEAD and value.shape[-1] == width
    if flash and cuda.flash_sdp_enabled():
        kernel = torch.ops.aten._scaled_dot_product_flash_attention
        outputs = kernel(query, key, value, dropout_p, is_causal, scale=scale)
        return outputs[0]
    if half and cuda.cudnn_sdp_enabled() and not cuda.mem_efficient_sdp_enabled():
        kernel = torch.ops.aten._scaled_dot_product_cudnn_attention
    elif cuda.mem_efficient_sdp_enabled():
        kernel = torch.ops.aten._scaled_dot_product_efficient_attention
        if groups > 1:  # this kernel wants as many heads of keys and values
            key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
        if attn_mask is not None:
            attn_mask = attn_mask.expand(*query.shape[:3], key.shape[2])
    else:
        raise RuntimeError("No available kernel. Aborting execution.")
    outputs = kernel(query, key, value, attn_mask, query.requires_grad, dropout_p, is_causal, scale=scale)
    return outputs[0]


def visible_pairs(seq_len: int, window: int | None) -> int:
    """Pairs of query and key that a causal mask with a window leaves, each diagonal counted half."""
    width = seq_len if window is None else min(window, seq_len)
    return width * (2 * seq_len - width) // 2


@torch.library.custom_op("llmperf::flex_attention", mutates_args=())
def attention_by_pairs(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, pairs: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention and, in float32, the logarithms of the sums of its rows."""
    raise RuntimeError("a fake tensor has no kernel")


@attention_by_pairs.register_fake
def _(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, pairs: int) -> tuple[torch.Tensor, torch.Tensor]:
    rows = query.shape[:-1]
    return query.new_empty((*rows, value.shape[-1])), query.new_empty(rows, dtype=torch.float32)


@torch.library.custom_op(
    "llmperf::flex_attention_backward",
    mutates_args=(),
    schema="(Tensor gradient, Tensor query, Tensor key, Tensor value, Tensor output, Tensor log_sums, SymInt pairs)"
    " -> (Tensor, Tensor, Tensor)",
)
def _backward(*_: Any) -> Any:
    raise RuntimeError("a fake tensor has no kernel")


@_backward.register_fake
def _(gradient: torch.Tensor, *inputs: Any) -> tuple[torch.Tensor, ...]:
    return tuple(torch.empty_like(tensor) for tensor in inputs[:3])


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    *tensors, ctx.pairs = inputs
    ctx.save_for_backward(*tensors, *output)


def _gradients(ctx: Any, gradient: torch.Tensor, _: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    return *_backward(gradient, *ctx.saved_tensors, ctx.pairs), None


attention_by_pairs.register_autograd(_gradients, setup_context=_save)
