"""Ranks that share each layer, and the two operators between them (Shoeybi et al. 2019, Megatron-LM, section 3).

Activations are whole on every rank between layers. `copied` enters a part that is shared out: identity forward, sum of
gradients backward. `summed` leaves it: sum forward, identity backward.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed


@dataclass(frozen=True)
class TensorParallel:
    """The ranks that share layers with this one."""

    rank: int = 0
    """Of this process among them."""
    size: int = 1
    """How many they are."""
    group: Any = None
    """torch's process group; None where there is one rank."""

    def copied(self, whole: torch.Tensor) -> torch.Tensor:
        """The same tensor, to be used in shares: its gradient is the sum over the ranks."""
        return whole if self.size == 1 else _Copied.apply(whole, self.group)

    def summed(self, part: torch.Tensor) -> torch.Tensor:
        """The sum of the ranks' parts, on every rank."""
        return part if self.size == 1 else _Summed.apply(part, self.group)


class _Copied(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, whole: torch.Tensor, group: Any) -> torch.Tensor:
        ctx.group = group
        return whole.view_as(whole)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        gradient = gradient.contiguous()
        torch.distributed.all_reduce(gradient, group=ctx.group)
        return gradient, None


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: torch.Tensor, group: Any) -> torch.Tensor:
        ctx.mark_dirty(part)  # summed in place: the parts are of no further use
        torch.distributed.all_reduce(part, group=group)
        return part

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient, None
