"""The attention of a layer: projections of a model's facts around one of `llmperf_pytorch.attention`."""

from __future__ import annotations

import math

import torch
from llmperf.types import Model
from torch import nn

from llmperf_pytorch.attention import attend
from llmperf_pytorch.decoder.mixture import Projection
from llmperf_pytorch.decoder.positions import Positions
from llmperf_pytorch.kernels.choice import Kernels, norm_of


class LayerAttention(nn.Module):
    """Shared parts of all kinds of attention: rotation, windows, sinks, the kernel, the output projection."""

    def __init__(self, facts: Model, kernel: str, kernels: Kernels, *, windowed: bool) -> None:
        super().__init__()
        self._kernel, self._kernels = kernel, kernels
        self._scale = score_scale(facts)
        self._window = facts.window if windowed else None
        self._neighbours = facts.rotated_pairs == "neighbours"
        values = facts.attention_heads * facts.value_width
        self.o_proj = Projection(values, facts.hidden_size, bias="o" in facts.attention_bias)
        self.sinks = nn.Parameter(torch.zeros(facts.attention_heads)) if facts.sinks else None

    def _rotate(self, states: torch.Tensor, positions: Positions) -> torch.Tensor:
        """By the positions' angles, if they have any."""
        if positions.cosines is None or positions.sines is None:
            return states
        return rotated(states, positions.cosines, positions.sines, self._kernels, neighbours=self._neighbours)

    def _attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, positions: Positions
    ) -> torch.Tensor:
        """Heads [batch, heads, seq_len, width] to the residual stream."""
        attended = attend(
            self._kernel,
            query,
            key,
            value,
            bias=positions.bias,
            scale=self._scale,
            window=self._window,
            sinks=self.sinks,
            mask=positions.mask,
        )
        output: torch.Tensor = self.o_proj(attended.transpose(1, 2).flatten(2))
        return output


class GroupedAttention(LayerAttention):
    """Separate projections of queries, keys and values; several queries may share a key."""

    def __init__(self, facts: Model, kernel: str, kernels: Kernels, *, windowed: bool) -> None:
        super().__init__(facts, kernel, kernels, windowed=windowed)
        width, head = facts.hidden_size, facts.query_width
        self._head = head
        self.q_proj = Projection(width, facts.attention_heads * head, bias="q" in facts.attention_bias)
        self.k_proj = Projection(width, facts.kv_heads * head, bias="k" in facts.attention_bias)
        self.v_proj = Projection(width, facts.kv_heads * head, bias="v" in facts.attention_bias)
        normed = facts.qk_norm == "head"
        self.q_norm = norm_of(facts, head, kernels) if normed else None
        self.k_norm = norm_of(facts, head, kernels) if normed else None

    def forward(self, hidden: torch.Tensor, positions: Positions) -> torch.Tensor:
        """[batch, seq_len, width] to the same."""
        query, key, value = (
            project(hidden).unflatten(-1, (-1, self._head)) for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        if self.q_norm is not None and self.k_norm is not None:
            query, key = self.q_norm(query), self.k_norm(key)
        query, key = (self._rotate(states.transpose(1, 2), positions) for states in (query, key))
        return self._attend(query, key, value.transpose(1, 2), positions)


class PackedAttention(LayerAttention):
    """One projection of queries, keys and values, as Baichuan's checkpoints have it; no grouped keys."""

    def __init__(self, facts: Model, kernel: str, kernels: Kernels, *, windowed: bool) -> None:
        super().__init__(facts, kernel, kernels, windowed=windowed)
        self._heads = facts.attention_heads
        self.W_pack = Projection(facts.hidden_size, 3 * facts.hidden_size, bias=False)

    def forward(self, hidden: torch.Tensor, positions: Positions) -> torch.Tensor:
        """[batch, seq_len, width] to the same."""
        packed = self.W_pack(hidden).unflatten(-1, (3, self._heads, -1))
        query, key, value = packed.permute(2, 0, 3, 1, 4)
        query, key = (self._rotate(states, positions) for states in (query, key))
        return self._attend(query, key, value, positions)


class LatentAttention(LayerAttention):
    """Keys and values from a vector of low rank, queries too where the model has a rank for them (arXiv:2405.04434).

    Queries and keys have a part without positions and a rotated part, which all heads of a key share.
    """

    def __init__(self, facts: Model, kernel: str, kernels: Kernels, *, windowed: bool) -> None:
        super().__init__(facts, kernel, kernels, windowed=windowed)
        latent, width, heads = facts.latent, facts.hidden_size, facts.attention_heads
        assert latent is not None
        self._rank, self._rope, self._nope = latent.kv_rank, latent.rope_width, latent.nope_width
        self._head = facts.query_width
        queries = heads * self._head
        if latent.q_rank is None:
            self.q_proj = Projection(width, queries, bias=False)
        else:
            self.q_a_proj = Projection(width, latent.q_rank, bias=False)
            self.q_a_layernorm = norm_of(facts, latent.q_rank, kernels)
            self.q_b_proj = Projection(latent.q_rank, queries, bias=False)
        self._full_rank = latent.q_rank is None
        self.kv_a_proj_with_mqa = Projection(width, latent.kv_rank + latent.rope_width, bias=False)
        self.kv_a_layernorm = norm_of(facts, latent.kv_rank, kernels)
        self.kv_b_proj = Projection(latent.kv_rank, heads * (latent.nope_width + latent.value_width), bias=False)

    def forward(self, hidden: torch.Tensor, positions: Positions) -> torch.Tensor:
        """[batch, seq_len, width] to the same."""
        queries = self.q_proj(hidden) if self._full_rank else self.q_b_proj(self.q_a_layernorm(self.q_a_proj(hidden)))
        query = queries.unflatten(-1, (-1, self._head)).transpose(1, 2)
        compressed, shared = self.kv_a_proj_with_mqa(hidden).split([self._rank, self._rope], dim=-1)
        pairs = self.kv_b_proj(self.kv_a_layernorm(compressed)).unflatten(-1, (query.shape[1], -1)).transpose(1, 2)
        key, value = pairs[..., : self._nope], pairs[..., self._nope :]
        plain, turned = query.split([self._nope, self._rope], dim=-1)
        turned = self._rotate(turned, positions)
        shared = self._rotate(shared.unsqueeze(1), positions).expand(-1, query.shape[1], -1, -1)
        query = torch.cat([plain, turned.to(plain.dtype)], -1)
        return self._attend(query, torch.cat([key, shared.to(key.dtype)], -1), value, positions)


def rotated(
    states: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor, kernels: Kernels, *, neighbours: bool
) -> torch.Tensor:
    """Turn the first channels of [batch, heads, seq_len, width], as many as there are angles [seq_len, channels] for.

    Where neighbours are pairs, they are put into halves first: scores do not depend on the order of channels.
    """
    turning = cosines.shape[-1]
    first, rest = states[..., :turning], states[..., turning:]
    if neighbours:
        first = first.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
    turned = kernels.rotate(first, cosines, sines)
    return torch.cat([turned, rest], -1) if rest.shape[-1] else turned


def score_scale(facts: Model) -> float:
    """By which scores are multiplied: 1 / sqrt(width), and yarn's factor of latent attention, (0.1 c ln(f) + 1)^2."""
    scale = (facts.query_scale_width or facts.query_width) ** -0.5
    scaling = facts.rope_scaling
    if scaling is None or not scaling.score_scale or scaling.factor <= 1:
        return scale
    return scale * (0.1 * scaling.score_scale * math.log(scaling.factor) + 1.0) ** 2


def attention_layer(facts: Model, kernel: str, kernels: Kernels, *, windowed: bool) -> LayerAttention:
    """The attention of one layer."""
    if facts.latent is not None:
        return LatentAttention(facts, kernel, kernels, windowed=windowed)
    kind = PackedAttention if facts.family == "baichuan" else GroupedAttention
    return kind(facts, kernel, kernels, windowed=windowed)
