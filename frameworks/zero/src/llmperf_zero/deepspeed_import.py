"""DeepSpeed, imported without the noise and the work that training does not need."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import deepspeed
import torch
from llmperf_pytorch.processes import meeting_point, set_timeouts

if TYPE_CHECKING:
    from llmperf.types import Plan

__all__ = ["deepspeed", "init_ranks", "skip_inference_kernel"]

logging.getLogger("DeepSpeed").setLevel(logging.WARNING)


def skip_inference_kernel() -> None:
    """Keep `init_distributed` on a CPU from compiling a shared-memory operation for a minute: only inference uses it.

    The module is taken from `sys.modules`, since `deepspeed.comm` binds the name `torch` to the real torch.
    """
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None


def init_ranks(plan: Plan, device: torch.device, backend: str) -> None:
    """Join the ranks as DeepSpeed wants it."""
    if device.type == "cpu":
        skip_inference_kernel()
    deepspeed.init_distributed(
        dist_backend=backend,
        auto_mpi_discovery=False,
        verbose=False,
        timeout=set_timeouts(plan),
        init_method=meeting_point(),
    )
