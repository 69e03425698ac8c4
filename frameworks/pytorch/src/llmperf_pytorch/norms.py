"""RMSNorm (Zhang and Sennrich 2019, arXiv 1910.07467) as one operation, for which CUDA has a fused kernel.

Computed in float32 and rounded once, so that in 16 bits it is at least as exact as separate operations.
"""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import nn
from torch.nn import functional

from llmperf_pytorch.autocast import without_autocast


def rms_norm(hidden: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Any shape [..., width] to the same shape and dtype; weight [width].

    Autocast would turn 16-bit inputs into float32, which take twice the memory: the kernel computes in float32 anyway.
    """
    with without_autocast(hidden) if hidden.dtype is not torch.float32 else nullcontext():
        return functional.rms_norm(hidden, weight.shape, weight, eps)


class RmsNorm(nn.RMSNorm):
    """`rms_norm` with a weight of its own."""

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Any shape [..., width] to the same."""
        assert self.eps is not None
        return rms_norm(hidden, self.weight, self.eps)
