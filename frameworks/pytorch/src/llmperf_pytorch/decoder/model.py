"""Embedding, blocks, output projection: the whole model, with the parameter names of published checkpoints."""

from __future__ import annotations

import torch
from llmperf.types import Contract, Model
from llmperf.types.models import Span
from llmperf_torchkit.losses import head_loss
from llmperf_torchkit.precision import compute_dtype
from torch import nn
from torch.nn import functional

from llmperf_pytorch.decoder.attention import attention_layer
from llmperf_pytorch.decoder.mixture import FeedForward, MixtureLayer, Projection
from llmperf_pytorch.decoder.positions import PositionEncoding, Positions
from llmperf_pytorch.kernels.choice import Kernels, norm_of
from llmperf_pytorch.kernels.cross_entropy import linear_cross_entropy


class Embedding(nn.Embedding):
    """A table of tokens without torch's initial weights."""

    def reset_parameters(self) -> None:
        """Leave the memory as it is."""


class Head(Projection):
    """Output projection; NormHead's rows have unit length at each forward (Baichuan 2, arXiv 2309.10305)."""

    def __init__(self, facts: Model, kernels: Kernels) -> None:
        super().__init__(facts.hidden_size, facts.vocab_size, bias=False)
        self.normalized, self.fuses_loss = facts.normalized_head, kernels.cross_entropy

    def forward(self, hidden: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        """Logits [..., vocab_size] of [..., width]; with labels their mean cross entropy."""
        weight = functional.normalize(self.weight) if self.normalized else self.weight
        return functional.linear(hidden, weight) if labels is None else linear_cross_entropy(hidden, weight, labels)


class Block(nn.Module):
    """Attention and feed-forward layer, each after a norm and around a residual; four norms also norm what is added."""

    def __init__(self, place: int, facts: Model, attention: str, kernels: Kernels, contract: Contract | None) -> None:
        super().__init__()
        pattern = facts.window_pattern or ("window",)
        self.span: Span = "full" if facts.window is None else pattern[place % len(pattern)]
        self.self_attn = attention_layer(facts, attention, kernels, windowed=self.span == "window")
        dense = place < facts.dense_layers
        self.mlp = (
            FeedForward(facts.intermediate_size, facts, kernels)
            if dense
            else MixtureLayer(place, facts, kernels, contract)
        )
        width = facts.hidden_size
        self.input_layernorm = norm_of(facts, width, kernels)
        self.post_attention_layernorm = norm_of(facts, width, kernels)
        self._four_norms = facts.norms_per_block == 4
        if self._four_norms:
            self.pre_feedforward_layernorm = norm_of(facts, width, kernels)
            self.post_feedforward_layernorm = norm_of(facts, width, kernels)
        if not dense:
            self.register_forward_hook(_count_experts)

    def forward(self, hidden: torch.Tensor, positions: Positions) -> torch.Tensor:
        """[batch, seq_len, width] to the same."""
        attended = self.self_attn(self.input_layernorm(hidden), positions)
        if not self._four_norms:
            hidden = hidden + attended
            return hidden + self.mlp(self.post_attention_layernorm(hidden))
        hidden = hidden + self.post_attention_layernorm(attended)
        return hidden + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(hidden)))


def _count_experts(block: nn.Module, *_: object) -> None:
    """After a block's forward pass; its repetition in the backward pass is none."""
    layer = block.get_submodule("mlp")
    if block.training and isinstance(layer, MixtureLayer):
        layer.count()


class Decoder(nn.Module):
    """All but the output projection."""

    def __init__(self, facts: Model, attention: str, kernels: Kernels, contract: Contract | None = None) -> None:
        super().__init__()
        self.embed_tokens = Embedding(facts.vocab_size, facts.hidden_size)
        self.positions = PositionEncoding(facts, attention)
        self.layers = nn.ModuleList(
            [Block(place, facts, attention, kernels, contract) for place in range(facts.layers)]
        )
        self.norm = norm_of(facts, facts.hidden_size, kernels)
        self._embedding_scale = facts.embedding_scale

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Ids [batch, seq_len] to normed states [batch, seq_len, width]."""
        hidden: torch.Tensor = self.embed_tokens(ids)
        if self._embedding_scale != 1.0:
            hidden = hidden * self._embedding_scale
        hidden = hidden.to(compute_dtype(hidden))  # autocast leaves the residual stream as the embedding gives it
        positions = self.positions(hidden)
        for block in self.layers:
            hidden = block(hidden, positions[block.span])
        states: torch.Tensor = self.norm(hidden)
        return states


class LanguageModel(nn.Module):
    """Decoder and output projection. Without a contract each token takes the experts with the highest scores."""

    def __init__(self, facts: Model, attention: str, kernels: Kernels, contract: Contract | None = None) -> None:
        super().__init__()
        self.model = Decoder(facts, attention, kernels, contract)
        self.lm_head = Head(facts, kernels)
        if facts.tied_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        """Logits [batch, seq_len, vocab_size] of ids [batch, seq_len]; with labels their mean cross entropy."""
        states = self.model(input_ids)
        return self.lm_head(states) if labels is None else head_loss(self.lm_head, states, labels)
