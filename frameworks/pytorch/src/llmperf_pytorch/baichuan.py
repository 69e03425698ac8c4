"""Baichuan2, a definition of our own, with the parameter names of the published checkpoints.

7B has rotary positions, 13B has ALiBi; both have one packed projection for queries, keys and values, and NormHead.
Source: Baichuan 2, arXiv 2309.10305, and `modeling_baichuan.py` beside the published weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import nn
from torch.nn import functional

from llmperf_pytorch.attention import ATTENTION, alibi_slopes, position_bias
from llmperf_pytorch.autocast import compute_dtype
from llmperf_pytorch.kernels.choice import Kernels
from llmperf_pytorch.kernels.cross_entropy import linear_cross_entropy
from llmperf_pytorch.losses import head_loss
from llmperf_pytorch.norms import RmsNorm
from llmperf_pytorch.rotary import Rotary

if TYPE_CHECKING:
    from llmperf.types import Model

Positions: TypeAlias = tuple[torch.Tensor, torch.Tensor] | torch.Tensor
"""Cosines and sines, or what `position_bias` makes."""


class Head(nn.Module):
    """Output projection; NormHead's rows have unit length at each forward."""

    def __init__(self, width: int, vocab_size: int, *, normalized: bool, kernels: Kernels) -> None:
        super().__init__()
        self.normalized, self.fuses_loss = normalized, kernels.cross_entropy
        self.weight = nn.Parameter(torch.empty(vocab_size, width))

    def forward(self, hidden: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        """Logits [..., vocab_size] of [..., width]; with labels their mean cross entropy."""
        weight = functional.normalize(self.weight) if self.normalized else self.weight
        return functional.linear(hidden, weight) if labels is None else linear_cross_entropy(hidden, weight, labels)


class PackedAttention(nn.Module):
    """Causal attention over one packed projection."""

    def __init__(self, facts: Model, implementation: str, kernels: Kernels) -> None:
        super().__init__()
        self.heads, self.kernels = facts.attention_heads, kernels
        self.attend = ATTENTION[implementation]
        self.W_pack = nn.Linear(facts.hidden_size, 3 * facts.hidden_size, bias=False)
        self.o_proj = nn.Linear(facts.hidden_size, facts.hidden_size, bias=False)

    def forward(self, hidden: torch.Tensor, positions: Positions) -> torch.Tensor:
        """[batch, seq_len, width] to the same."""
        batch, seq_len, width = hidden.shape
        packed = self.W_pack(hidden).view(batch, seq_len, 3, self.heads, width // self.heads)
        query, key, value = packed.permute(2, 0, 3, 1, 4)
        bias = positions if isinstance(positions, torch.Tensor) else None
        if not isinstance(positions, torch.Tensor):
            query, key = (self.kernels.rotate(states, *positions) for states in (query, key))
        attended = self.attend(query, key, value, bias).transpose(1, 2)
        return self.o_proj(attended.reshape(batch, seq_len, width))


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, width: int, inner: int, kernels: Kernels) -> None:
        super().__init__()
        self.kernels = kernels
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """[..., width] to the same."""
        return self.down_proj(self.kernels.swiglu(self.gate_proj(hidden), self.up_proj(hidden)))


class Layer(nn.Module):
    """Attention and feed-forward, each after a norm and around a residual."""

    def __init__(self, facts: Model, attention: str, kernels: Kernels) -> None:
        super().__init__()
        self.self_attn = PackedAttention(facts, attention, kernels)
        self.mlp = FeedForward(facts.hidden_size, facts.intermediate_size, kernels)
        self.input_layernorm = RmsNorm(facts.hidden_size, facts.norm_eps, kernels)
        self.post_attention_layernorm = RmsNorm(facts.hidden_size, facts.norm_eps, kernels)

    def forward(self, hidden: torch.Tensor, positions: Positions) -> torch.Tensor:
        """[batch, seq_len, width] to the same."""
        hidden = hidden + self.self_attn(self.input_layernorm(hidden), positions)
        return hidden + self.mlp(self.post_attention_layernorm(hidden))


class Decoder(nn.Module):
    """All but the head."""

    def __init__(self, facts: Model, attention: str, kernels: Kernels) -> None:
        super().__init__()
        self.attention = attention
        self.embed_tokens = nn.Embedding(facts.vocab_size, facts.hidden_size)
        self.layers = nn.ModuleList([Layer(facts, attention, kernels) for _ in range(facts.layers)])
        self.norm = RmsNorm(facts.hidden_size, facts.norm_eps, kernels)
        self.rotary = None
        if facts.position_encoding == "rope":
            self.rotary = Rotary(facts.hidden_size // facts.attention_heads, facts.rope_theta or 10000.0)
        else:
            self._heads = facts.attention_heads
            self.set_buffers()

    def set_buffers(self) -> None:
        """Make ALiBi's slopes on the default device; rotary positions make their own."""
        if self.rotary is None:
            self.register_buffer("slopes", alibi_slopes(self._heads), persistent=False)

    def positions(self, hidden: torch.Tensor) -> Positions:
        """What tells positions apart, once for all layers."""
        dtype = compute_dtype(hidden)
        if self.rotary is not None:
            return self.rotary(hidden.shape[1], dtype)
        return position_bias(self.attention, self.slopes, hidden.shape[1], dtype)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Ids [batch, seq_len] to [batch, seq_len, width]."""
        hidden = self.embed_tokens(input_ids)
        positions = self.positions(hidden)
        for layer in self.layers:
            hidden = layer(hidden, positions)
        return self.norm(hidden)


class Baichuan(nn.Module):
    """Decoder and output projection."""

    def __init__(self, facts: Model, attention: str, kernels: Kernels) -> None:
        super().__init__()
        self.model = Decoder(facts, attention, kernels)
        self.lm_head = Head(facts.hidden_size, facts.vocab_size, normalized=facts.normalized_head, kernels=kernels)
        if facts.tied_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        """Logits [batch, seq_len, vocab_size] of ids [batch, seq_len]; with labels their mean cross entropy."""
        states = self.model(input_ids)
        return self.lm_head(states) if labels is None else head_loss(self.lm_head, states, labels)
