"""AdamW's step count, as DeepSpeed leaves it."""

from __future__ import annotations

import torch


def forget_steps(optimizer: torch.optim.Optimizer) -> None:
    """Set AdamW's step count to 0.

    At stage 0 in 16 bits DeepSpeed makes the optimiser states by a step with zero gradients, which counts: the bias
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
