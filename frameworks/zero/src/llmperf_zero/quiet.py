"""DeepSpeed, imported without the noise and the work that training does not need."""

from __future__ import annotations

import logging
import sys

import deepspeed

__all__ = ["deepspeed", "skip_inference_kernel"]

logging.getLogger("DeepSpeed").setLevel(logging.WARNING)


def skip_inference_kernel() -> None:
    """Keep `init_distributed` on a CPU from compiling a shared-memory operation for a minute: only inference uses it.

    The module is taken from `sys.modules`, since `deepspeed.comm` binds the name `torch` to the real torch.
    """
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None
