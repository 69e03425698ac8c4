"""Stand-ins, without data, for what trainers get: batches, initial weights, process group, values of host tensors.

Functions of torch that choose a kernel by the device choose as on CUDA; FlexAttention is one operation each way.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import llmperf
import numpy as np
import torch
import torch.distributed
from llmperf.types import Plan
from torch.nn import functional

from llmperf_torchkit import precision
from llmperf_torchkit.tracing.device import NAME
from llmperf_torchkit.tracing.operations import tensors_in

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
        stack.enter_context(patch.object(precision, "FUSED_DEVICES", (*precision.FUSED_DEVICES, NAME)))
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


class NoBatches:
    """`llmperf.TokenBatches` of zeros, all tokens learnt."""

    weight = 1.0

    def __init__(self, plan: Plan) -> None:
        batch = plan.batch
        self._shape = batch.micro_batch, batch.seq_len + 1
        self.learnt = batch.micro_batch * batch.seq_len

    def next_micro_batch(self) -> Any:
        """Ids, int64 [micro_batch, seq_len + 1]."""
        return np.zeros(self._shape, dtype=np.int64)

    def close(self) -> None:
        """Nothing is open."""


@contextmanager
def no_data(plan: Plan) -> Iterator[str]:
    """Batches and initial weights that take no time and no memory."""

    def no_normal(
        seed: int, name: str, shape: tuple[int, ...], std: float, start: int = 0, stop: int | None = None
    ) -> Any:
        whole = stop is None and not start
        length = int(np.prod(shape)) if stop is None else stop
        zeros = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (length - start,), (0,), writeable=True)
        return np.broadcast_to(zeros[:1], shape).copy() if whole and length < 2 else _shaped(zeros, shape, whole)

    with (
        patch.object(llmperf, "open_batches", lambda *_: NoBatches(plan)),
        patch.object(llmperf, "initial_normal", no_normal),
    ):
        yield "batches and initial weights: zeros"


def _shaped(zeros: Any, shape: tuple[int, ...], whole: bool) -> Any:
    return np.lib.stride_tricks.as_strided(zeros, shape, (0,) * len(shape), writeable=True) if whole else zeros


@contextmanager
def conversion_of_modules() -> Iterator[str]:
    """`Module.to` replaces the data of parameters, as for tensors with data, instead of swapping whole objects.

    torch swaps fake tensors, and refuses those that anyone has a weak reference to, as the fake mode itself has.
    """
    swap = torch.utils.swap_tensors

    def take_data(parameter: torch.Tensor, converted: torch.Tensor) -> None:
        if parameter.device == converted.device:
            parameter.data = converted.data
            return
        with patch.object(weakref, "getweakrefs", lambda _: []):
            swap(parameter, converted)
        for name, value in vars(converted).items():  # what others have noted on the parameter
            vars(parameter).setdefault(name, value)

    with patch.object(torch.utils, "swap_tensors", take_data):
        yield "Module.to: replaces the data of parameters"


@contextmanager
def streams_in_order() -> Iterator[str]:
    """`Tensor.record_stream` does nothing: memory is free when its last tensor ends."""
    with patch.object(torch.Tensor, "record_stream", lambda *_: None):
        yield "streams: memory that another stream still uses counts as free at once"


@contextmanager
def meshes_with_ranks() -> Iterator[str]:
    """Device meshes are made of tensors that have values: they say which ranks share what."""
    from torch._subclasses.fake_tensor import unset_fake_temporarily
    from torch.distributed import device_mesh
    from torch.distributed.device_mesh import DeviceMesh

    def with_values(make: Callable[..., Any]) -> Callable[..., Any]:
        def made(*arguments: Any, **named: Any) -> Any:
            with unset_fake_temporarily():
                return make(*arguments, **named)

        return made

    with ExitStack() as stack:
        stack.enter_context(patch.object(device_mesh, "init_device_mesh", with_values(device_mesh.init_device_mesh)))
        for name in ("__init__", "_create_flatten_mesh", "_create_unflatten_mesh"):
            if hasattr(DeviceMesh, name):
                stack.enter_context(patch.object(DeviceMesh, name, with_values(getattr(DeviceMesh, name))))
        if hasattr(DeviceMesh, "_concatenate"):
            concatenate = staticmethod(with_values(DeviceMesh._concatenate))
            stack.enter_context(patch.object(DeviceMesh, "_concatenate", concatenate))
        yield "device meshes: made of real tensors"


@contextmanager
def no_communication(plan: Plan, rank: int) -> Iterator[str]:
    """The process group of all ranks, in which nothing is sent, seen from one of them."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    layout = plan.layout
    names = {
        "RANK": rank,
        "LOCAL_RANK": rank % layout.devices_per_node,
        "WORLD_SIZE": layout.world_size,
        "LOCAL_WORLD_SIZE": layout.devices_per_node,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": 1,
    }
    backends = f"cpu:fake,{NAME}:fake"
    with patch.dict(os.environ, {name: str(value) for name, value in names.items()}):
        torch.distributed.init_process_group(backends, store=FakeStore(), rank=rank, world_size=layout.world_size)
        try:
            yield "process group: torch's `fake` backend, which sends nothing"
        finally:
            if torch.distributed.is_initialized():
                torch.distributed.destroy_process_group()


@contextmanager
def without_constants(operation: Any, args: tuple[Any, ...]) -> Iterator[None]:
    """Fake tensors remember the values of small host tensors, and compute with them where no device could.

    What the operation writes to, such as the step that an optimiser counts, has no value afterwards.
    """
    remembered = [(one, one.constant) for one in args if getattr(one, "constant", None) is not None]
    for tensor, _ in remembered:
        tensor.constant = None
    try:
        yield
    finally:
        for tensor, constant in remembered:
            tensor.constant = constant
        for argument, given in zip(operation._schema.arguments, args, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                for tensor in tensors_in(given):
                    if getattr(tensor, "constant", None) is not None:
                        tensor.constant = None
