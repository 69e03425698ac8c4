"""CUDA, as far as megatron-core asks for it, on a machine that has none; a GPU never loads this file.

megatron-core names CUDA's device, streams and generators in its code. On a CPU there is one device, work is done in
order, and no dropout needs a generator.
"""

from __future__ import annotations

import contextlib
from functools import cache
from typing import Any

import torch

CPU = torch.device("cpu")


class Stream:
    """A stream or an event of a device that has done all its work."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self


def on_cpu(make: Any) -> Any:
    """A function of torch that makes tensors; those for `cuda` are on the CPU."""

    def made(*arguments: Any, **named: Any) -> Any:
        if str(named.get("device", "")).startswith("cuda"):
            named["device"] = CPU
        return make(*arguments, **named)

    return made


@cache
def stand_in_for_cuda() -> None:
    """Have this process find a CPU where megatron-core looks for CUDA. Called before it is imported."""
    kinds = {f"torch.{name}": f"torch.cuda.{name}" for name in ("FloatTensor", "BFloat16Tensor", "HalfTensor")}
    kind_of = torch.Tensor.type

    def typed(tensor: torch.Tensor, *arguments: Any, **named: Any) -> Any:
        answer = kind_of(tensor, *arguments, **named)
        return kinds.get(answer, answer) if isinstance(answer, str) else answer

    cuda: Any = torch.cuda
    cuda.current_device = lambda: CPU
    cuda.current_stream = cuda.default_stream = lambda *_: Stream()
    cuda.Stream = cuda.Event = Stream
    cuda.stream = lambda _: contextlib.nullcontext()
    cuda.synchronize = lambda *_: None
    tensor: Any = torch.Tensor
    tensor.type, tensor.cuda, tensor.record_stream = typed, lambda self, *_, **__: self, lambda *_: None
    for name in ("tensor", "zeros", "ones", "empty", "full", "arange"):
        setattr(torch, name, on_cpu(getattr(torch, name)))

    from megatron.core.tensor_parallel import random

    random.CudaRNGStatesTracker.fork = lambda *_: contextlib.nullcontext()
    random._get_cuda_rng_state = random._set_cuda_rng_state = lambda *_, **__: torch.empty(0)
    from megatron.core.transformer import torch_norm
    from megatron.core.transformer.moe import moe_utils, token_dispatcher

    token_dispatcher.maybe_move_tensor_to_cpu = lambda tensor, as_numpy=False, **_: (
        tensor.numpy() if as_numpy else tensor
    )

    torch_norm.WrappedTorchNorm.__new__ = rms_norm

    moe_utils.te_general_gemm = None


def rms_norm(_: type, config: Any, hidden_size: int, eps: float = 1e-5, **__: Any) -> torch.nn.Module:
    """torch's RMSNorm, also under sequence parallelism, where gradients of its weight are added up over ranks."""
    norm = torch.nn.RMSNorm(hidden_size, eps)
    norm.weight.sequence_parallel = config.sequence_parallel
    return norm
