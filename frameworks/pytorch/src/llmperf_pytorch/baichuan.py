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
from llmperf_pytorch.norms import RmsNorm
from llmperf_pytorch.rotary import Rotary, rotate

if TYPE_CHECKING:
    from llmperf.types import Model

Positions: TypeAlias = tuple[torch.Tensor, torch.Tensor] | torch.Tensor
"""Cosines and sines, or what `position_bias` makes."""


class NormHead(nn.Module):
    """Output projection whose rows have unit length at each forward."""

    def __init__(self, width: int, vocab_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, width))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """[..., width] to [..., vocab_size]."""
        return functional.linear(hidden, functional.normalize(self.weight))


class PackedAttention(nn.Module):
    """Causal attention over one packed projection."""

    def __init__(self, facts: Model, implementation: str) -> None:
        super().__init__()
        self.heads = facts.attention_heads
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
            query, key = rotate(query, *positions), rotate(key, *positions)
        attended = self.attend(query, key, value, bias).transpose(1, 2)
        return self.o_proj(attended.reshape(batch, seq_len, width))


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """[..., width] to the same."""
        return self.down_proj(functional.silu(self.gate_proj(hidden)) * self.up_proj(hidden))


class Layer(nn.Module):
    """Attention and feed-forward, each after a norm and around a residual."""

    def __init__(self, facts: Model, attention: str) -> None:
        super().__init__()
        self.self_attn = PackedAttention(facts, attention)
        self.mlp = FeedForward(facts.hidden_size, facts.intermediate_size)
        self.input_layernorm = RmsNorm(facts.hidden_size, facts.norm_eps)
        self.post_attention_layernorm = RmsNorm(facts.hidden_size, facts.norm_eps)

    def forward(self, hidden: torch.Tensor, positions: Positions) -> torch.Tensor:
        """[batch, seq_len, width] to the same."""
        hidden = hidden + self.self_attn(self.input_layernorm(hidden), positions)
        return hidden + self.mlp(self.post_attention_layernorm(hidden))


def compute_dtype(hidden: torch.Tensor) -> torch.dtype:
    """What matrix products of hidden states come out in: not their own dtype under autocast."""
    kind = hidden.device.type
    possible = torch.amp.is_autocast_available(kind)  # the meta device, for one, knows nothing of it
    return torch.get_autocast_dtype(kind) if possible and torch.is_autocast_enabled(kind) else hidden.dtype


class Decoder(nn.Module):
    """All but the head."""

    def __init__(self, facts: Model, attention: str) -> None:
        super().__init__()
        self.attention = attention
        self.embed_tokens = nn.Embedding(facts.vocab_size, facts.hidden_size)
        self.layers = nn.ModuleList([Layer(facts, attention) for _ in range(facts.layers)])
        self.norm = RmsNorm(facts.hidden_size, facts.norm_eps)
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
    """`forward(ids)` gives logits."""

    def __init__(self, facts: Model, attention: str) -> None:
        super().__init__()
        self.model = Decoder(facts, attention)
        if facts.normalized_head:
            self.lm_head: nn.Module = NormHead(facts.hidden_size, facts.vocab_size)
        else:
            self.lm_head = nn.Linear(facts.hidden_size, facts.vocab_size, bias=False)
        if facts.tied_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Logits [batch, seq_len, vocab_size] of ids [batch, seq_len]."""
        return self.lm_head(self.model(input_ids))
