"""Autocast for the traced device type, with CUDA's lists of operations (torch/csrc/autograd, autocast_mode.h)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map

LOWER = (
    "linear", "matmul", "mm", "bmm", "addmm", "addbmm", "baddbmm", "mv", "addmv", "addr", "chain_matmul",
    "linalg_multi_dot", "_convolution", "conv1d", "conv2d", "einsum", "prelu",
)  # fmt: skip
"""Computed in the lower precision."""
FLOAT32 = (
    "softmax.int", "log_softmax.int", "layer_norm", "nll_loss", "nll_loss_nd", "cross_entropy_loss",
    "pow.Tensor_Scalar", "pow.Tensor_Tensor", "rsqrt", "exp", "log", "reciprocal", "norm.Scalar",
    "norm.ScalarOpt_dim", "cumsum", "cumprod", "prod", "sum", "sum.dim_IntList", "cosine_similarity", "mse_loss",
    "softplus", "erfinv", "cosh", "tan",
)  # fmt: skip
"""Computed in float32."""
KEY = "AutocastPrivateUse1"

_libraries: list[torch.library.Library] = []
_cast_weights: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
"""Weights and their casts, which autocast keeps until its outermost context ends."""


def register_autocast() -> None:
    """Once in a process; torch registers none for device types of others."""
    others = torch.library.Library("_", "IMPL", KEY)
    others.fallback(torch.library.fallthrough_kernel)
    library = torch.library.Library("aten", "IMPL")
    for name in LOWER:
        _register(library, name, _lower)
    for name in FLOAT32:
        _register(library, name, _float32)
    _libraries.extend((others, library))
    clear = torch.clear_autocast_cache

    def clear_both() -> None:
        _cast_weights.clear()
        clear()

    torch.clear_autocast_cache = clear_both


def _register(library: torch.library.Library, name: str, cast: Callable[[torch.Tensor], torch.Tensor]) -> None:
    packet, _, overload = name.partition(".")
    if not hasattr(torch.ops.aten, packet):
        return
    operation = getattr(getattr(torch.ops.aten, packet), overload or "default")

    def with_casts(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)):
            args, kwargs = tree_map(lambda value: _cast(value, cast), (args, kwargs))
            return operation(*args, **kwargs)

    library.impl(name, with_casts, KEY)


def _cast(value: Any, cast: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.dtype is torch.float64:
        return value
    return cast(value)


def _lower(tensor: torch.Tensor) -> torch.Tensor:
    dtype = torch.get_autocast_dtype(tensor.device.type)
    if tensor.dtype is dtype:
        return tensor
    if not (tensor.is_leaf and tensor.requires_grad and tensor.dtype is torch.float32 and tensor._base is None):
        return tensor.to(dtype)
    if id(tensor) not in _cast_weights:
        _cast_weights[id(tensor)] = tensor, tensor.to(dtype)
    return _cast_weights[id(tensor)][1]


def _float32(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float()
