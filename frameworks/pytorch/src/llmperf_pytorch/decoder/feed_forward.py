"""Projections and dense feed-forward layers, as the facts of a model describe them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from llmperf.types import Model
from torch import nn
from torch.nn import functional

from llmperf_pytorch.kernels.choice import Kernels

GatedActivation = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""The activation of what the gate and the up projection give, of one shape."""
CLAMP, SIGMOID_SLOPE = 7.0, 1.702
"""Constants of GPT-OSS (`swiglu_limit` and `alpha` in its published code)."""


class Projection(nn.Linear):
    """A linear layer without torch's initial weights, which are slow to draw and replaced."""

    def reset_parameters(self) -> None:
        """Leave the memory as it is."""


class FeedForward(nn.Module):
    """A gated feed-forward layer, dense or the part of a mixture that all tokens pass."""

    def __init__(self, inner: int, facts: Model, kernels: Kernels) -> None:
        super().__init__()
        width, bias = facts.hidden_size, facts.feed_forward_bias
        self.gate_proj = Projection(width, inner, bias=bias)
        self.up_proj = Projection(width, inner, bias=bias)
        self.down_proj = Projection(inner, width, bias=bias)
        self._activate = gated_activation(facts, kernels)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """[..., width] to the same."""
        output: torch.Tensor = self.down_proj(self._activate(self.gate_proj(hidden), self.up_proj(hidden)))
        return output


def gated_activation(facts: Model, kernels: Kernels) -> GatedActivation:
    """The function of `Model.activation`."""
    if facts.activation == "geglu":
        return _geglu
    return kernels.swiglu if facts.activation == "swiglu" else _clamped_swiglu


def _geglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return functional.gelu(gate, approximate="tanh") * up


def _clamped_swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """(up + 1) x gate x sigmoid(1.702 gate), both clamped (GPT-OSS, arXiv:2508.10925)."""
    gate, up = gate.clamp(max=CLAMP), up.clamp(-CLAMP, CLAMP)
    return (up + 1) * gate * torch.sigmoid(SIGMOID_SLOPE * gate)
