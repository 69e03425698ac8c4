"""A device type that computes nothing: fake tensors are on it, and never hold data.

Its autocast has CUDA's lists of operations (torch/csrc/autograd, autocast_mode.h).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from functools import cache
from types import SimpleNamespace, TracebackType
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
        _register(library, name, torch.Tensor.float)
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

    def casted(value: Any) -> Any:
        floating = isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype is not torch.float64
        return cast(value) if floating else value

    def with_casts(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)):
            args, kwargs = tree_map(casted, (args, kwargs))
            return operation(*args, **kwargs)

    library.impl(name, with_casts, KEY)


def _lower(tensor: torch.Tensor) -> torch.Tensor:
    dtype = torch.get_autocast_dtype(tensor.device.type)
    if tensor.dtype is dtype:
        return tensor
    if not (tensor.is_leaf and tensor.requires_grad and tensor.dtype is torch.float32 and tensor._base is None):
        return tensor.to(dtype)
    if id(tensor) not in _cast_weights:
        _cast_weights[id(tensor)] = tensor, tensor.to(dtype)
    return _cast_weights[id(tensor)][1]


NAME = "traced"
"""Name of the device type, registered as torch's PrivateUse1."""
MEMORY_BYTES = 2**40
"""Memory size reported to libraries that ask: more than any case needs."""


class Stream:
    """An order of work; work on a stream other than the default one overlaps with it."""

    current: Stream
    stream_id = device_index = 0
    device_type = 20  # torch's number of device types of others

    def __init__(self, *_: object, **__: object) -> None:
        self._outer: list[Stream] = []

    def record_event(self, event: Event | None = None) -> Event:
        """A mark at the end of the stream."""
        return event or Event()

    def synchronize(self) -> None:
        """Block the host until all is done."""
        HOST_WAITS.note("Stream.synchronize")

    def __enter__(self) -> Stream:
        self._outer.append(Stream.current)
        Stream.current = self
        return self

    def __exit__(self, *_: object) -> None:
        Stream.current = self._outer.pop()


DEFAULT_STREAM = Stream()
Stream.current = DEFAULT_STREAM


class Event:
    """A mark in a stream, always passed. It is an event of torch and, by its last two methods, of llmperf's devices."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def synchronize(self) -> None:
        """Block the host until the mark has been passed."""
        HOST_WAITS.note("Event.synchronize")

    def ready(self) -> bool:
        """Check whether the mark has been passed."""
        return True

    def seconds_since(self, earlier: object) -> float:
        """Nothing takes time."""
        return 0.0


class Module:
    """The device module of torch, `torch.traced`: one device, whose memory is not counted and which draws nothing."""

    def get_rng_state(self, device: object = None) -> torch.Tensor:
        """No state."""
        return torch.zeros(16, dtype=torch.uint8, device="cpu")

    def stream(self, stream: Stream | None) -> Any:
        """A context in which a stream is the current one."""
        return contextlib.nullcontext() if stream is None else stream

    def current_stream(self, device: object = None) -> Stream:
        """The one that work goes to."""
        return Stream.current

    def set_stream(self, stream: Stream) -> None:
        """Make a stream the current one."""
        Stream.current = stream

    def synchronize(self, device: object = None) -> None:
        """Block the host until all work is done."""
        HOST_WAITS.note("synchronize")


ANSWERS: Mapping[str, object] = {
    **dict.fromkeys(("is_initialized", "is_available"), True),
    "_is_in_bad_fork": False,
    "device_count": 1,
    **dict.fromkeys(("current_device", "memory_allocated", "memory_reserved"), 0),
    **dict.fromkeys(("max_memory_allocated", "max_memory_reserved"), 0),
    "mem_get_info": (MEMORY_BYTES, MEMORY_BYTES),
    "get_device_name": NAME,
    "get_device_properties": SimpleNamespace(name=NAME, total_memory=MEMORY_BYTES),
    "memory_stats": {},
    "default_stream": DEFAULT_STREAM,
    "get_amp_supported_dtype": [torch.float16, torch.bfloat16],
    **dict.fromkeys(("set_device", "manual_seed", "manual_seed_all", "set_rng_state", "empty_cache"), None),
    "reset_peak_memory_stats": None,
}
"""Functions of the device module that always answer the same."""


def answer_always(kind: type, answers: Mapping[str, object]) -> None:
    """Give a class functions that always answer the same, whatever their arguments."""

    def function(answer: object) -> Callable[..., object]:
        return lambda *_, **__: answer

    for name, answer in answers.items():
        setattr(kind, name, function(answer))


answer_always(Module, ANSWERS)
answer_always(Event, {"record": None, "wait": None, "query": True, "elapsed_time": 0.0})
answer_always(Stream, {"wait_stream": None, "wait_event": None, "query": True})


class TracedDevice:
    """A `llmperf.types.Device` for trainers that are traced."""

    places: Mapping[str, str] = {"torch": f"{NAME}:0"}
    collective_backend = "fake"

    def event(self) -> Event:
        """A mark."""
        return Event()

    def synchronize(self) -> None:
        """Nothing runs."""

    def peak_memory_bytes(self) -> int | None:
        """Not counted here."""
        return None

    def reset_peak_memory(self) -> None:
        """Not counted here."""

    def close(self) -> None:
        """Nothing to release."""

    def __enter__(self) -> TracedDevice:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class HostWaitNotes:
    """Where the device reports that the host waits for it."""

    listener: Any = None

    def note(self, operation: str) -> None:
        """The host waits; forgotten while nothing is traced."""
        if self.listener is not None:
            self.listener.note(operation)


HOST_WAITS = HostWaitNotes()
setattr(Module, "Stream", Stream)  # noqa: B010 - as names in the class they would hide the types
setattr(Module, "Event", Event)  # noqa: B010


@cache
def register_device_type() -> None:
    """Make torch know the device type; once in a process."""
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    _setup_privateuseone_for_python_backend(NAME, backend_module=Module())
    register_autocast()
