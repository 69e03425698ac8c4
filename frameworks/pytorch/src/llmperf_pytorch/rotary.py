"""Rotary position embedding (Su et al., RoFormer, arXiv 2104.09864), halves rotated as in LLaMA checkpoints."""

from __future__ import annotations

import torch
from torch import nn


def inverse_frequencies(width: int, theta: float) -> torch.Tensor:
    """Radians a position of each pair of channels, float32 [width / 2].

    Made from integers, since `deepspeed.zero.Init` rounds new floating-point tensors to the weights' precision.
    """
    return 1.0 / theta ** (torch.arange(0, width, 2).float() / width)


class Rotary(nn.Module):
    """Cosines and sines of all positions of a sequence."""

    def __init__(self, width: int, theta: float) -> None:
        super().__init__()
        self._width, self._theta = width, theta
        self.set_buffers()

    def set_buffers(self) -> None:
        """Make the frequencies on the default device."""
        self.register_buffer("inv_freq", inverse_frequencies(self._width, self._theta), persistent=False)

    def forward(self, seq_len: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Two of [seq_len, head width], computed in float32."""
        places = torch.arange(seq_len, device=self.inv_freq.device).float()
        angles = places[:, None] * self.inv_freq.float()
        both = torch.cat([angles, angles], dim=-1)
        return both.cos().to(dtype), both.sin().to(dtype)


def rotate(states: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    """Turn each pair of channels of [batch, heads, seq_len, width] by its position's angle."""
    low, high = states.chunk(2, dim=-1)
    return states * cosines + torch.cat([-high, low], dim=-1) * sines
