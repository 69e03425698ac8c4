"""Waits of the host for its device that DeepSpeed's updates can do without: streams wait for streams in their place.

Written for DeepSpeed 0.19.8; what another version lacks is left as it is. Offloaded states need their waits: the host
reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from deepspeed.accelerator import get_accelerator
from deepspeed.runtime.fp16.unfused_optimizer import FP16_UnfusedOptimizer
from deepspeed.runtime.zero.stage3 import DeepSpeedZeroOptimizer_Stage3
from deepspeed.runtime.zero.stage_1_and_2 import DeepSpeedZeroOptimizer
from llmperf.types import RunSpec


def remove_host_waits(optimizer: Any, spec: RunSpec) -> None:
    """Change one of DeepSpeed's optimisers, once its engine is made."""
    if get_accelerator().is_synchronized_device() or spec.framework.get("offload", "none") != "none":
        return
    if isinstance(optimizer, DeepSpeedZeroOptimizer_Stage3):
        stream = getattr(optimizer, "reduce_and_partition_stream", None)
        if stream is not None:
            stream.synchronize = partial(_continue_after, stream)
        if optimizer.persistent_parameters:
            _wrap(optimizer.persistent_parameters[0], "all_gather", None)
    elif isinstance(optimizer, DeepSpeedZeroOptimizer):
        name = "overlapping_partition_gradients_reduce_epilogue"
        _wrap(optimizer, name, optimizer.reduction_stream)
    elif isinstance(optimizer, FP16_UnfusedOptimizer) and spec.contract.precision == "bf16":
        optimizer.step = partial(_update, optimizer)


def _wrap(owner: Any, name: str, stream: Any) -> None:
    """Have a method of one object order streams where it would have the host wait for the whole device."""
    method: Callable[..., Any] | None = getattr(owner, name, None)
    if method is None:
        return

    def ordered(*arguments: Any, **named: Any) -> Any:
        with _ordering(stream):
            return method(*arguments, **named)

    setattr(owner, name, ordered)


@contextmanager
def _ordering(stream: Any) -> Iterator[None]:
    accelerator = get_accelerator()
    accelerator.synchronize = partial(_continue_after, stream)
    try:
        yield
    finally:
        del accelerator.synchronize


def _continue_after(stream: Any, *_: object) -> None:
    """The current stream continues when another has done its work; the host continues at once."""
    if stream is not None:
        get_accelerator().current_stream().wait_stream(stream)


def _update(optimizer: FP16_UnfusedOptimizer, closure: None = None) -> bool:
    """`FP16_UnfusedOptimizer.step` for bfloat16: the norm stays on the device, and no gradient is looked at."""
    halves = [parameter for group in optimizer.fp16_groups for parameter in group]
    singles = [parameter for group in optimizer.fp32_groups for parameter in group]
    for half, single in zip(halves, singles, strict=True):
        single.grad = torch.zeros_like(single) if half.grad is None else half.grad.to(single.dtype)
    gradients = [single.grad for single in singles]
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    if optimizer.clip_grad > 0:
        torch._foreach_mul_(gradients, (optimizer.clip_grad / (norm + 1e-6)).clamp(max=1.0))
    optimizer._global_grad_norm, optimizer.overflow = norm, False
    optimizer.optimizer.step()
    for single in singles:
        single.grad = None
    with torch.no_grad():
        torch._foreach_copy_(halves, singles)
    return False
