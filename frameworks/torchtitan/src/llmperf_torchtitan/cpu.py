"""What torchtitan expects of an accelerator, and `torch.cpu` and gloo lack; a GPU never loads this file."""

from __future__ import annotations

import os
from functools import cache
from types import SimpleNamespace
from typing import Any

import torch
import torch._utils
from torch import distributed
from torch.distributed.fsdp import FSDPModule

MEMORY_BYTES = 2**34


def stand_in_for_accelerator() -> None:
    """Give `torch.cpu` device functions, and gloo sums without factors and barriers. Called before its import."""
    os.environ["LOCAL_RANK"] = "0"  # every rank's CPU is device 0
    _replace_functions()


@cache
def _replace_functions() -> None:
    torch._utils._get_available_device_type = lambda: "cpu"
    lacking: dict[str, Any] = {
        "get_device_name": lambda *_: "CPU",
        "get_device_properties": lambda *_: SimpleNamespace(total_memory=MEMORY_BYTES),
        "reset_peak_memory_stats": lambda *_: None,
        "empty_cache": lambda: None,
        "memory_stats": lambda *_: {},
    }
    for name, function in lacking.items():
        setattr(torch.cpu, name, function)
    divide, barrier = FSDPModule.set_gradient_divide_factor, distributed.barrier

    def divide_apart(module: FSDPModule, factor: float) -> None:
        divide(module, factor)
        module.set_force_sum_reduction_for_comms(True)

    FSDPModule.set_gradient_divide_factor = divide_apart
    plain: Any = lambda group=None, **_: barrier(group)  # noqa: E731
    distributed.barrier = plain
