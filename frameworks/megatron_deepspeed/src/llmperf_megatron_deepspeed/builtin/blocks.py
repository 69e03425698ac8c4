"""A transformer block of LLaMA whose heads and feed-forward columns the ranks share, and the output projection."""

from __future__ import annotations

from functools import lru_cache

import torch
from llmperf.types import Model
from llmperf_pytorch.attention import ATTENTION
from llmperf_pytorch.kernels.choice import Kernels
from torch import nn

from llmperf_megatron_deepspeed.builtin.layers import ColumnParallel, RmsNorm, RowParallel
from llmperf_megatron_deepspeed.builtin.tensor_parallel import TensorParallel

DEFAULT_THETA = 10000.0


@lru_cache(maxsize=4)
def turns(
    seq_len: int, width: int, theta: float, device: torch.device, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of all positions, [seq_len, width] each: computed once, in float32, for all layers.

    No buffers of a module: DeepSpeed rounds those to the weights' precision.
    """
    with torch.no_grad():
        frequencies = 1.0 / theta ** (torch.arange(0, width, 2).float() / width)
        angles = torch.arange(seq_len).float()[:, None] * frequencies
        both = torch.cat([angles, angles], dim=-1)
        return both.cos().to(device, dtype), both.sin().to(device, dtype)


class SelfAttention(nn.Module):
    """Causal attention with rotary positions; each rank has some of the query heads and their key/value heads.

    Here as below, states are [batch, seq_len / ranks, hidden_size] if the sequence is divided.
    """

    def __init__(self, name: str, facts: Model, attention: str, ranks: TensorParallel, kernels: Kernels) -> None:
        super().__init__()
        self._kernels = kernels
        hidden, self._width = facts.hidden_size, facts.hidden_size // facts.attention_heads
        self._theta, self._attend, self._ranks = facts.rope_theta or DEFAULT_THETA, ATTENTION[attention], ranks
        key_value = facts.kv_heads * self._width
        self.q_proj = ColumnParallel(f"{name}.q_proj", hidden, hidden, ranks)
        self.k_proj = ColumnParallel(f"{name}.k_proj", hidden, key_value, ranks)
        self.v_proj = ColumnParallel(f"{name}.v_proj", hidden, key_value, ranks)
        self.o_proj = RowParallel(f"{name}.o_proj", hidden, hidden, ranks)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """[batch, seq_len, hidden_size] to the same."""
        weights = (self.q_proj.weight, self.k_proj.weight, self.v_proj.weight)
        projected = self._ranks.products(states, *weights)
        batch, seq_len, _ = projected[0].shape
        query, key, value = (one.view(batch, seq_len, -1, self._width).transpose(1, 2) for one in projected)
        cosines, sines = turns(seq_len, self._width, self._theta, states.device, states.dtype)
        query, key = (self._kernels.rotate(one, cosines, sines) for one in (query, key))
        mixed = self._attend(query, key, value, None)
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, seq_len, -1))


class FeedForward(nn.Module):
    """SwiGLU (Shazeer 2020), its inner columns shared out."""

    def __init__(self, name: str, facts: Model, ranks: TensorParallel, kernels: Kernels) -> None:
        super().__init__()
        self._kernels = kernels
        hidden, inner, self._ranks = facts.hidden_size, facts.intermediate_size, ranks
        self.gate_proj = ColumnParallel(f"{name}.gate_proj", hidden, inner, ranks)
        self.up_proj = ColumnParallel(f"{name}.up_proj", hidden, inner, ranks)
        self.down_proj = RowParallel(f"{name}.down_proj", inner, hidden, ranks)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """[batch, seq_len, hidden_size] to the same."""
        gate, up = self._ranks.products(states, self.gate_proj.weight, self.up_proj.weight)
        return self.down_proj(self._kernels.swiglu(gate, up))


class Block(nn.Module):
    """One layer: attention and feed-forward, each normalised before and added to what came in."""

    def __init__(self, index: int, facts: Model, attention: str, ranks: TensorParallel, kernels: Kernels) -> None:
        super().__init__()
        name, hidden, eps = f"model.layers.{index}", facts.hidden_size, facts.norm_eps
        self.input_layernorm = RmsNorm(f"{name}.input_layernorm", hidden, eps, ranks, kernels)
        self.self_attn = SelfAttention(f"{name}.self_attn", facts, attention, ranks, kernels)
        self.post_attention_layernorm = RmsNorm(f"{name}.post_attention_layernorm", hidden, eps, ranks, kernels)
        self.mlp = FeedForward(f"{name}.mlp", facts, ranks, kernels)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """[batch, seq_len, hidden_size] to the same."""
        states = states + self.self_attn(self.input_layernorm(states))
        return states + self.mlp(self.post_attention_layernorm(states))


class Head(nn.Module):
    """The output projection with weights of its own, each rank with some of the vocabulary.

    With `fuses_loss` it leaves the projection to the loss.
    """

    def __init__(self, facts: Model, ranks: TensorParallel, *, fuses_loss: bool) -> None:
        super().__init__()
        self._ranks, self._fuses_loss = ranks, fuses_loss
        self.projection = ColumnParallel("lm_head", facts.hidden_size, facts.vocab_size, ranks)

    def forward(self, states: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """This rank's share [batch, seq_len, vocab_size / ranks] of the logits, or what it is the product of."""
        if self._fuses_loss:
            return self._ranks.shared(states), self.projection.weight
        return self._ranks.products(states, self.projection.weight)[0]


class FinalNorm(nn.Module):
    """The last norm; a module of its own, so that its weight is named as a norm's."""

    def __init__(self, facts: Model, ranks: TensorParallel, kernels: Kernels) -> None:
        super().__init__()
        self.norm = RmsNorm("model.norm", facts.hidden_size, facts.norm_eps, ranks, kernels)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """The same shape."""
        return self.norm(states)
