"""RMSNorm (Zhang and Sennrich 2019, arXiv 1910.07467), as one operation or as separate ones.

CUDA has a fused kernel for the one operation. It computes in float32 and rounds once, so that in 16 bits it is at least
as exact as separate operations.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from llmperf_pytorch.precision import without_autocast

if TYPE_CHECKING:
    from llmperf.types import Model

    from llmperf_pytorch.kernels.choice import Kernels


def rms_norm(hidden: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Any shape [..., width] to the same shape and dtype; weight [width].

    Autocast would turn 16-bit inputs into float32, which take twice the memory: the kernel computes in float32 anyway.
    """
    with without_autocast(hidden) if hidden.dtype is not torch.float32 else nullcontext():
        return functional.rms_norm(hidden, weight.shape, weight, eps)


def separate_rms_norm(hidden: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """As transformers' LlamaRMSNorm: in float32, whose results the backward pass keeps; rounded, then weighted."""
    exact = hidden.float()
    scaled = exact * torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + eps)
    return weight * scaled.to(hidden.dtype)


class RmsNorm(nn.Module):
    """RMSNorm with a weight of its own; with an offset it multiplies by 1 + its weight."""

    def __init__(self, width: int, eps: float, kernels: Kernels, *, offset: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self._eps, self._kernels, self._offset = eps, kernels, offset

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Any shape [..., width] to the same."""
        return self._kernels.rms_norm(hidden, self.weight, self._eps, offset=self._offset)


def norm_of(facts: Model, width: int, kernels: Kernels) -> RmsNorm:
    """A norm as a model has it."""
    return RmsNorm(width, facts.norm_eps, kernels, offset=facts.norm_offset)
