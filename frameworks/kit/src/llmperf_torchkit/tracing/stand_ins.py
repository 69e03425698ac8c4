"""Stand-ins, without data, for what trainers get: batches, initial weights, process group, values of host tensors."""

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

from llmperf_torchkit.tracing.device import NAME
from llmperf_torchkit.tracing.operations import tensors_in


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
