"""Attention whose heads the ranks share, as the facts of a model describe it."""

from __future__ import annotations

from functools import lru_cache

import llmperf
import torch
from llmperf.types import Model
from llmperf_pytorch.attention import attend
from llmperf_pytorch.decoder.attention import rotated, score_scale
from llmperf_pytorch.decoder.positions import visible_keys
from llmperf_pytorch.kernels.choice import Kernels
from torch import nn

from llmperf_megatron_deepspeed.builtin.shards import ColumnParallel, RmsNorm, RowParallel, sharded_parameter
from llmperf_megatron_deepspeed.builtin.tensor_parallel import TensorParallel


@lru_cache(maxsize=4)
def turns(
    facts: Model, windowed: bool, seq_len: int, device: torch.device, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of all positions, [seq_len, rotated width] each: computed once, in float32, for all layers.

    No buffers of a module: DeepSpeed rounds those to the weights' precision.
    """
    frequencies, scale = llmperf.rotary_frequencies(facts, windowed)
    with torch.no_grad():
        angles = torch.arange(seq_len).float()[:, None] * torch.tensor(frequencies)
        both = torch.cat([angles, angles], dim=-1)
        return (both.cos() * scale).to(device, dtype), (both.sin() * scale).to(device, dtype)


@lru_cache(maxsize=4)
def visible(seq_len: int, window: int, device: torch.device, sinks: bool) -> torch.Tensor:
    """The keys that a layer with a window sees: computed once for all layers."""
    return visible_keys(seq_len, window, device, sinks=sinks)


def forget_positions() -> None:
    """Drop positions computed for an earlier trainer."""
    turns.cache_clear()
    visible.cache_clear()


class SelfAttention(nn.Module):
    """Causal attention with rotary positions; each rank has some of the query heads and their key/value heads.

    Here as below, states are [batch, seq_len / ranks, hidden_size] if the sequence is divided.
    """

    def __init__(
        self, name: str, index: int, facts: Model, attention: str, ranks: TensorParallel, kernels: Kernels
    ) -> None:
        super().__init__()
        pattern = facts.window_pattern or ("window",)
        self._window = facts.window if pattern[index % len(pattern)] == "window" else None
        self._facts, self._kernel, self._kernels, self._ranks = facts, attention, kernels, ranks
        self._scale, self._width = score_scale(facts), facts.query_width
        hidden, biased = facts.hidden_size, facts.attention_bias
        queries, keys = facts.attention_heads * self._width, facts.kv_heads * self._width
        self.q_proj = ColumnParallel(f"{name}.q_proj", hidden, queries, ranks, bias="q" in biased)
        self.k_proj = ColumnParallel(f"{name}.k_proj", hidden, keys, ranks, bias="k" in biased)
        self.v_proj = ColumnParallel(f"{name}.v_proj", hidden, keys, ranks, bias="v" in biased)
        self.o_proj = RowParallel(f"{name}.o_proj", queries, hidden, ranks, bias="o" in biased)
        self.q_norm = self.k_norm = self.sinks = None
        if facts.qk_norm == "head":
            self.q_norm = RmsNorm(f"{name}.q_norm", facts, ranks, kernels, width=self._width, of_heads=True)
            self.k_norm = RmsNorm(f"{name}.k_norm", facts, ranks, kernels, width=self._width, of_heads=True)
        if facts.sinks:
            self.sinks = sharded_parameter(f"{name}.sinks", (facts.attention_heads,), 0, ranks)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """[batch, seq_len, hidden_size] to the same."""
        query, key, value = (
            product.unflatten(-1, (-1, self._width))
            for product in self._ranks.projected(states, self.q_proj, self.k_proj, self.v_proj)
        )
        if self.q_norm is not None and self.k_norm is not None:
            query, key = self.q_norm(query), self.k_norm(key)
        seq_len, window = query.shape[1], self._window
        cosines, sines = turns(self._facts, window is not None, seq_len, query.device, query.dtype)
        neighbours = self._facts.rotated_pairs == "neighbours"
        query, key = (
            rotated(part.transpose(1, 2), cosines, sines, self._kernels, neighbours=neighbours) for part in (query, key)
        )
        bias = None
        if window is not None and window < seq_len and self._kernel != "flex":
            bias = visible(seq_len, window, query.device, self._facts.sinks)
        mixed = attend(
            self._kernel,
            query,
            key,
            value.transpose(1, 2),
            bias=bias,
            scale=self._scale,
            window=window,
            sinks=self.sinks,
        )
        return self.o_proj(mixed.transpose(1, 2).flatten(2))
