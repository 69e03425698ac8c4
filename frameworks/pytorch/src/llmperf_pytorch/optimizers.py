"""AdamW as the case has it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from llmperf import is_norm

if TYPE_CHECKING:
    from llmperf.types import Optimizer

FUSED_DEVICES = ("cuda", "cpu")


def parameter_groups(model: torch.nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Matrices decay, norm weights do not; frozen parameters are in no group, and no group is empty."""
    named = [one for one in model.named_parameters() if one[1].requires_grad]
    matrices = [parameter for name, parameter in named if not is_norm(name)]
    norms = [parameter for name, parameter in named if is_norm(name)]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": norms, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


def adamw(model: torch.nn.Module, optimizer: Optimizer, device: torch.device) -> torch.optim.AdamW:
    """torch's AdamW, fused where torch has it for the device."""
    return torch.optim.AdamW(
        parameter_groups(model, optimizer.weight_decay),
        lr=optimizer.lr,
        betas=(optimizer.beta1, optimizer.beta2),
        eps=optimizer.eps,
        fused=True if device.type in FUSED_DEVICES else None,
    )


def set_learning_rate(groups: Iterable[dict[str, Any]], rate: float) -> None:
    """For the next step, in all groups."""
    for group in groups:
        group["lr"] = rate
