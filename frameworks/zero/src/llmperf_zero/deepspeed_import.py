"""DeepSpeed, imported quietly, and what this package changes in it before and after its engine is made."""

from __future__ import annotations

import logging
import sys

import deepspeed
import torch
from deepspeed.runtime.zero import stage3, stage_1_and_2
from llmperf.types import Plan
from llmperf_torchkit.processes import meeting_point, set_timeouts

__all__ = ["check_gradients", "deepspeed", "init_ranks", "reset_step_count", "skip_inference_kernel"]

logging.getLogger("DeepSpeed").setLevel(logging.WARNING)

CHECK = "is_invalid_grad_norm"
_CHECKS = {module: getattr(module, CHECK) for module in (stage_1_and_2, stage3) if hasattr(module, CHECK)}
"""DeepSpeed's own check of the gradient norm, in versions that have it."""


def skip_inference_kernel() -> None:
    """Keep `init_distributed` on a CPU from compiling a shared-memory operation for a minute: only inference uses it.

    The module is taken from `sys.modules`, since `deepspeed.comm` binds the name `torch` to the real torch.
    """
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # type: ignore[attr-defined]


def init_ranks(plan: Plan, device: torch.device, backend: str) -> None:
    """Create the process group through DeepSpeed."""
    if device.type == "cpu":
        skip_inference_kernel()
    deepspeed.init_distributed(
        dist_backend=backend,
        auto_mpi_discovery=False,
        verbose=False,
        timeout=set_timeouts(plan),
        init_method=meeting_point(),
    )


def check_gradients(precision: str) -> None:
    """Let ZeRO 1, 2 and 3 check the gradient norm only in fp16, where the loss scale depends on it.

    The check waits for the device in every step. In other precisions DeepSpeed would silently skip the update of a step
    whose gradients are not finite; without the check that update makes the next loss NaN, which ends the run.
    """
    for module, check in _CHECKS.items():
        setattr(module, CHECK, check if precision == "fp16" else lambda norm: False)


def reset_step_count(optimizer: torch.optim.Optimizer) -> None:
    """Set AdamW's step count to 0.

    At stage 0 in 16 bits DeepSpeed creates the optimiser states by a step with zero gradients, which counts: the bias
    corrections of all later steps would be off by one, and the first update 27 % too small.
    """
    for state in optimizer.state.values():
        if isinstance(state.get("step"), torch.Tensor):
            state["step"].zero_()
        elif "step" in state:
            state["step"] = 0
    for group in optimizer.param_groups:
        if "step" in group:  # DeepSpeed's FusedAdam counts by group
            group["step"] = 0
