"""AdamW as the case has it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from llmperf import decays
from llmperf.types import Optimizer

FUSED_DEVICES = ("cuda", "cpu")


Named = Iterable[tuple[str, torch.Tensor]]
"""Parameters with their names."""


def parameter_groups(model: torch.nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Matrices decay, norms, biases and sinks do not; frozen parameters are in no group, and no group is empty."""
    return groups_of(model.named_parameters(), weight_decay)


def groups_of(named: Named, weight_decay: float) -> list[dict[str, Any]]:
    """The same of parameters, or of the parts of them that a rank holds."""
    trained = [(name, parameter) for name, parameter in named if parameter.requires_grad]
    matrices = [parameter for name, parameter in trained if decays(name)]
    others = [parameter for name, parameter in trained if not decays(name)]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


def adamw(model: torch.nn.Module, optimizer: Optimizer, device: torch.device) -> torch.optim.AdamW:
    """torch's AdamW, fused where torch has it for the device."""
    return adamw_of(model.named_parameters(), optimizer, device)


def adamw_of(named: Named, optimizer: Optimizer, device: torch.device) -> torch.optim.AdamW:
    """The same of parameters, or of the parts of them that a rank holds."""
    return torch.optim.AdamW(
        groups_of(named, optimizer.weight_decay),
        lr=optimizer.lr,
        betas=(optimizer.beta1, optimizer.beta2),
        eps=optimizer.eps,
        fused=True if device.type in FUSED_DEVICES else None,
    )


def adamw_kernel(optimizer: torch.optim.Optimizer) -> str:
    """By what an AdamW updates, for the result: one kernel for many parameters, or torch's operations on each."""
    if not isinstance(optimizer, torch.optim.AdamW):
        return type(optimizer).__name__
    fused = all(group.get("fused") for group in optimizer.param_groups)
    return "torch.optim.AdamW, fused" if fused else "torch.optim.AdamW, separate operations"


def set_learning_rate(groups: Iterable[dict[str, Any]], rate: float) -> None:
    """For the next step, in all groups."""
    for group in groups:
        group["lr"] = rate
