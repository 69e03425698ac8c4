"""DistributedDataParallel without its C++ part, which reads values that fake tensors do not have."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed
from torch import nn

FIRST_BUCKET_BYTES, BUCKET_BYTES = 2**20, 25 * 2**20
"""As torch has them."""


@contextmanager
def bucketed_data_parallel() -> Iterator[str]:
    """`DistributedDataParallel` is `BucketedModule`, also where a module that is loaded has imported it already."""
    original = torch.nn.parallel.DistributedDataParallel
    named = [
        (module, name)
        for module in list(sys.modules.values())
        for name, value in list(getattr(module, "__dict__", {}).items())
        if value is original
    ]
    with ExitStack() as stack:
        for module, name in named:
            stack.enter_context(patch.object(module, name, BucketedModule))
        yield "DistributedDataParallel by its buckets: 25 MiB each, summed while the backward pass goes on"


@dataclass(slots=True)
class Bucket:
    """Gradients that are summed together."""

    flat: torch.Tensor
    missing: set[int] = field(default_factory=set)


class BucketedModule(nn.Module):
    """The bucket scheme of torch/csrc/distributed/c10d/reducer.cpp. Without views, gradients are copied in and out."""

    def __init__(self, module: nn.Module, *_: Any, gradient_as_bucket_view: bool = False, **__: Any) -> None:
        super().__init__()
        self.module = module
        self._with_views = gradient_as_bucket_view
        self._copied: list[nn.Parameter] = []
        self._synchronised = self._armed = True
        self._world = torch.distributed.get_world_size()
        self._works: list[Any] = []
        self._views: dict[int, tuple[Bucket, torch.Tensor]] = {}
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        for group in _bucket_groups(parameters[::-1]):
            with torch.no_grad():
                sizes = [parameter.numel() for parameter in group]
                flat = torch.zeros(sum(sizes), dtype=group[0].dtype, device=group[0].device)
            bucket = Bucket(flat)
            for parameter, part in zip(group, flat.split(sizes), strict=True):
                self._views[id(parameter)] = bucket, part.view(parameter.shape)
                parameter.register_post_accumulate_grad_hook(self._ready)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """As the module."""
        self._armed = self._synchronised
        for identity, (bucket, _) in self._views.items():
            bucket.missing.add(identity)
        return self.module(*args, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients stay on this rank."""
        self._synchronised = False
        try:
            yield
        finally:
            self._synchronised = True

    @torch.no_grad()
    def _ready(self, parameter: torch.Tensor) -> None:
        if not self._armed:
            return
        bucket, view = self._views[id(parameter)]
        assert parameter.grad is not None
        if parameter.grad.untyped_storage()._cdata == view.untyped_storage()._cdata:
            view.div_(self._world)
        else:
            torch.mul(parameter.grad, 1.0 / self._world, out=view)
            if self._with_views:
                parameter.grad = view
            else:
                self._copied.append(parameter)
        bucket.missing.discard(id(parameter))
        if not bucket.missing:
            if not self._works:
                torch.autograd.Variable._execution_engine.queue_callback(self._finish)
            self._works.append(torch.distributed.all_reduce(bucket.flat, async_op=True))

    def _finish(self) -> None:
        for work in self._works:
            work.wait()
        self._works.clear()
        with torch.no_grad():
            for parameter in self._copied:
                assert parameter.grad is not None
                parameter.grad.copy_(self._views[id(parameter)][1])
        self._copied.clear()


def _bucket_groups(parameters: list[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    group: list[nn.Parameter] = []
    size, limit = 0, FIRST_BUCKET_BYTES
    for parameter in parameters:
        if group and group[0].dtype is not parameter.dtype:
            yield group
            group, size, limit = [], 0, BUCKET_BYTES
        group.append(parameter)
        size += parameter.numel() * parameter.element_size()
        if size >= limit:
            yield group
            group, size, limit = [], 0, BUCKET_BYTES
    if group:
        yield group
