"""CUDA, as far as megatron-core asks for it, on a machine that has none; a GPU never loads this file.

megatron-core names CUDA's device, streams and generators in its code. On a CPU there is one device, work is done in
order, and no dropout needs a generator; a device that is traced has streams of its own.
"""

from __future__ import annotations

import contextlib
from functools import cache
from typing import Any

import torch

KINDS = {torch.float32: "FloatTensor", torch.bfloat16: "BFloat16Tensor", torch.float16: "HalfTensor"}


class Stream:
    """A stream or an event of a device that has done all its work."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self


class InOrder:
    """Streams and events of a device that does all work at once."""

    Stream = Event = Stream

    def current_stream(self, *_: Any) -> Any:
        """The only one."""
        return Stream()

    def stream(self, _: object) -> contextlib.nullcontext[None]:
        """No other one."""
        return contextlib.nullcontext()

    def synchronize(self, *_: Any) -> None:
        """All is done."""


@cache
def stand_in_for_cuda(place: str = "cpu") -> None:
    """Have this process find another device where megatron-core looks for CUDA. Called before it is imported."""
    device, cuda, tensor = torch.device(place), torch.cuda, torch.Tensor
    streams: Any = InOrder() if device.type == "cpu" else torch.get_device_module(device)
    kind_of = tensor.type

    def typed(self: torch.Tensor, *arguments: Any, **named: Any) -> Any:
        if arguments or named or self.dtype not in KINDS:
            return kind_of(self, *arguments, **named)
        return f"torch.cuda.{KINDS[self.dtype]}"

    def there(make: Any) -> Any:
        """A function of torch that makes tensors; those for `cuda` are on the device."""

        def made(*arguments: Any, **named: Any) -> Any:
            if str(named.get("device", "")).startswith("cuda"):
                named["device"] = device
            return make(*arguments, **named)

        return made

    stand_ins: dict[Any, dict[str, Any]] = {
        cuda: {
            "current_device": lambda: device,
            "get_rng_state": lambda *_: torch.empty(0),
            "set_rng_state": lambda *_: None,
            "default_stream": streams.current_stream,
            **{name: getattr(streams, name) for name in ("current_stream", "stream", "synchronize", "Stream", "Event")},
        },
        tensor: {"type": typed, "cuda": lambda self, *_, **__: self.to(device), "record_stream": lambda *_: None},
        torch: {name: there(getattr(torch, name)) for name in ("tensor", "zeros", "ones", "empty", "full", "arange")},
    }
    for owner, functions in stand_ins.items():
        for name, function in functions.items():
            setattr(owner, name, function)

    from megatron.core.tensor_parallel import random
    from megatron.core.transformer.moe import moe_utils, token_dispatcher

    random.CudaRNGStatesTracker.fork = lambda *_: contextlib.nullcontext()
    random._get_cuda_rng_state = random._set_cuda_rng_state = lambda *_, **__: torch.empty(0)
    moe_utils.te_general_gemm = None
    if device.type == "cpu":
        token_dispatcher.maybe_move_tensor_to_cpu = lambda tensor, as_numpy=False, **_: (
            tensor.numpy() if as_numpy else tensor
        )
