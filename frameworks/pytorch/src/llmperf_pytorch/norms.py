"""RMSNorm (Zhang and Sennrich 2019, arXiv 1910.07467) as one operation, for which CUDA has a fused kernel.

Computed in float32 and rounded once, so that in 16 bits it is at least as exact as separate operations.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn
from torch.nn import functional


def rms_norm(hidden: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Any shape [..., width] to the same shape and dtype; weight [width].

    Autocast would turn 16-bit inputs into float32, which take twice the memory: the kernel computes in float32 anyway.
    """
    with _without_autocast(hidden):
        return functional.rms_norm(hidden, weight.shape, weight, eps)


def _without_autocast(hidden: torch.Tensor) -> AbstractContextManager[object]:
    kind = hidden.device.type
    if hidden.dtype is torch.float32 or not torch.amp.is_autocast_available(kind):  # such as on the meta device
        return nullcontext()
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()


class RmsNorm(nn.RMSNorm):
    """`rms_norm` with a weight of its own."""

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Any shape [..., width] to the same."""
        assert self.eps is not None
        return rms_norm(hidden, self.weight, self.eps)
