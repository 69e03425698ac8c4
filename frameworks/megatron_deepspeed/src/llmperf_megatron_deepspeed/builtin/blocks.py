"""A transformer block whose heads and feed-forward columns the ranks share, and the output projection."""

from __future__ import annotations

import torch
from llmperf.types import Model
from llmperf_pytorch.decoder.feed_forward import gated_activation
from llmperf_pytorch.kernels.choice import Kernels
from torch import nn

from llmperf_megatron_deepspeed.builtin.attention import SelfAttention
from llmperf_megatron_deepspeed.builtin.shards import ColumnParallel, RmsNorm, RowParallel
from llmperf_megatron_deepspeed.builtin.tensor_parallel import TensorParallel


class FeedForward(nn.Module):
    """A gated feed-forward layer (Shazeer 2020), its inner columns shared out.

    Here as below, states are [batch, seq_len / ranks, hidden_size] if the sequence is divided.
    """

    def __init__(self, name: str, facts: Model, ranks: TensorParallel, kernels: Kernels) -> None:
        super().__init__()
        self._activate = gated_activation(facts, kernels)
        hidden, inner, bias, self._ranks = facts.hidden_size, facts.intermediate_size, facts.feed_forward_bias, ranks
        self.gate_proj = ColumnParallel(f"{name}.gate_proj", hidden, inner, ranks, bias=bias)
        self.up_proj = ColumnParallel(f"{name}.up_proj", hidden, inner, ranks, bias=bias)
        self.down_proj = RowParallel(f"{name}.down_proj", inner, hidden, ranks, bias=bias)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """[batch, seq_len, hidden_size] to the same."""
        gate, up = self._ranks.projected(states, self.gate_proj, self.up_proj)
        return self.down_proj(self._activate(gate, up))


class Block(nn.Module):
    """One layer: attention and feed-forward, each normalised before, or before and after, and added to what came in."""

    def __init__(self, index: int, facts: Model, attention: str, ranks: TensorParallel, kernels: Kernels) -> None:
        super().__init__()
        name = f"model.layers.{index}"

        def norm(position: str) -> RmsNorm:
            return RmsNorm(f"{name}.{position}_layernorm", facts, ranks, kernels)

        self.input_layernorm, self.post_attention_layernorm = norm("input"), norm("post_attention")
        self.four_norms = facts.norms_per_block == 4
        if self.four_norms:
            self.pre_feedforward_layernorm = norm("pre_feedforward")
            self.post_feedforward_layernorm = norm("post_feedforward")
        self.self_attn = SelfAttention(f"{name}.self_attn", index, facts, attention, ranks, kernels)
        self.mlp = FeedForward(f"{name}.mlp", facts, ranks, kernels)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """[batch, seq_len, hidden_size] to the same."""
        if self.four_norms:
            states = states + self.post_attention_layernorm(self.self_attn(self.input_layernorm(states)))
            return states + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(states)))
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
        self.norm = RmsNorm("model.norm", facts, ranks, kernels)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """The same shape."""
        return self.norm(states)
