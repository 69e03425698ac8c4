"""How positions enter attention: rotary angles, ALiBi's bias, and which keys a layer with a window sees.

RoFormer (Su et al., arXiv 2104.09864), ALiBi (Press et al., ICLR 2022).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import llmperf
import torch
from llmperf.types import Model
from llmperf.types.models import Span
from llmperf_torchkit.precision import compute_dtype
from torch import nn

from llmperf_pytorch import attention as kernels


class Positions(NamedTuple):
    """Position information of a layer."""

    cosines: torch.Tensor | None
    """[seq_len, rotated width], both halves equal; None without rotary positions."""
    sines: torch.Tensor | None
    """The same."""
    bias: torch.Tensor | None
    """For `attention.attend`: ALiBi's bias or slopes, or what is added to the scores of a window."""
    mask: Any = None
    """FlexAttention's mask of blocks, made here once for all layers and outside of compiled blocks."""


class Rotary(nn.Module):
    """Cosines and sines of all positions of a sequence, by the frequencies of `llmperf.rotary_frequencies`."""

    inv_freq: torch.Tensor

    def __init__(self, facts: Model, *, windowed: bool) -> None:
        super().__init__()
        self._facts, self._windowed = facts, windowed
        self.set_buffers()

    def set_buffers(self) -> None:
        """Make the frequencies on the default device, in float32: `deepspeed.zero.Init` rounds new tensors."""
        frequencies, self._scale = llmperf.rotary_frequencies(self._facts, windowed=self._windowed)
        made = torch.from_numpy(frequencies).to(torch.get_default_device())
        self.register_buffer("inv_freq", made, persistent=False)

    def forward(self, seq_len: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Two of [seq_len, rotated width], computed in float32."""
        places = torch.arange(seq_len, device=self.inv_freq.device).float()
        angles = places[:, None] * self.inv_freq.float()
        both = torch.cat([angles, angles], dim=-1)
        return (both.cos() * self._scale).to(dtype), (both.sin() * self._scale).to(dtype)


class PositionEncoding(nn.Module):
    """The positions of a model's layers, with a window and without."""

    slopes: torch.Tensor

    def __init__(self, facts: Model, attention: str) -> None:
        super().__init__()
        self._facts, self._attention = facts, attention
        self.rotary = self.window_rotary = None
        if facts.position_encoding == "rope":
            self.rotary = Rotary(facts, windowed=False)
            if facts.window_rope_theta is not None:
                self.window_rotary = Rotary(facts, windowed=True)
        self.set_buffers()

    def set_buffers(self) -> None:
        """Make ALiBi's slopes on the default device; rotary positions make their own."""
        if self._facts.position_encoding == "alibi":
            self.register_buffer("slopes", alibi_slopes(self._facts.attention_heads), persistent=False)

    def forward(self, hidden: torch.Tensor) -> dict[Span, Positions]:
        """By what a layer sees, of hidden states [batch, seq_len, width]."""
        facts, flex, seq_len = self._facts, self._attention == "flex", hidden.shape[1]

        def positions(rotary: nn.Module | None, bias: torch.Tensor | None, window: int | None = None) -> Positions:
            mask = kernels.block_mask(seq_len, window, hidden.device) if flex else None
            cosines, sines = (None, None) if rotary is None else rotary(seq_len, hidden.dtype)
            return Positions(cosines, sines, bias, mask)

        bias = None
        if facts.position_encoding == "alibi":
            bias = self.slopes if flex else causal_alibi(self.slopes, seq_len, compute_dtype(hidden))
        seen: dict[Span, Positions] = {"full": positions(self.rotary, bias)}
        if facts.window is not None:
            window, bias = facts.window if facts.window < seq_len else None, None
            if window is not None and not flex:  # of booleans each layer would make, and keep, such a bias
                visible = visible_keys(seq_len, window, hidden.device, sinks=facts.sinks)
                bias = torch.zeros_like(visible, dtype=compute_dtype(hidden)).masked_fill_(~visible, float("-inf"))
            seen["window"] = positions(self.window_rotary or self.rotary, bias, window)
        return seen


def visible_keys(seq_len: int, window: int, device: torch.device, *, sinks: bool) -> torch.Tensor:
    """Mask of the keys (columns) that a query (row) sees: itself, `window` - 1 before it, and a sink before all."""
    places = torch.arange(seq_len + sinks, device=device)
    distance = places[:, None] - places[None, :]
    visible = (distance >= 0) & (distance < window)
    return visible | (places == 0)[None, :] if sinks else visible


def alibi_slopes(heads: int) -> torch.Tensor:
    """One slope a head, float32 [heads]: 2^(-8/n), 2^(-16/n), ... with n the power of two at or below `heads`.

    The other heads take every second slope of 2n. Made from integers, since `deepspeed.zero.Init` rounds new
    floating-point tensors to the weights' precision.
    """
    below = 2 ** math.floor(math.log2(heads))
    eighths = [8 * (head + 1) for head in range(below)]
    eighths += [4 * (2 * head + 1) for head in range(heads - below)]
    return torch.exp2(-torch.tensor(eighths).float() / below)


def causal_alibi(slopes: torch.Tensor, seq_len: int, dtype: torch.dtype) -> torch.Tensor:
    """Bias of the scores, [1, heads, seq_len, seq_len]: -slope x distance, minus infinity for later positions."""
    places = torch.arange(seq_len, device=slopes.device)
    distance = places[:, None] - places[None, :]
    bias = -slopes.float()[:, None, None] * distance
    return bias.masked_fill(distance < 0, float("-inf")).to(dtype)[None]
