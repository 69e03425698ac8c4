"""How many parameters a model has, counted from its facts, part by part."""

from __future__ import annotations

from dataclasses import dataclass

from llmperf.types import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterCount:
    """Parameters of each part of a decoder-only transformer."""

    input_embedding: int
    attention: int
    """Query, key, value and output projections of all layers."""
    mlp: int
    """Gate, up and down projections of all layers."""
    norms: int
    """Two RMSNorm gains a layer and the final one; multiplied element by element."""
    head: int
    """Output projection; 0 where it is the input embedding (tied)."""

    @property
    def total(self) -> int:
        """All of them."""
        return self.input_embedding + self.attention + self.mlp + self.norms + self.head

    @property
    def looked_up(self) -> int:
        """Those that are never multiplied: the input embedding, unless it is also the output projection."""
        return self.input_embedding if self.head else 0

    @property
    def multiplied(self) -> int:
        """Those that stand in matrix products: two FLOPs each per token and forward pass."""
        return self.total - self.looked_up - self.norms


def count_parameters(model: Model) -> ParameterCount:
    """Count a model's parameters exactly.

    Biases do not occur in these families; ALiBi and rotary positions have no parameters; Baichuan2's NormHead
    scales the head's rows and adds none.
    """
    hidden = model.hidden_size
    key_value = model.kv_heads * (hidden // model.attention_heads)
    embedding = model.vocab_size * hidden
    return ParameterCount(
        input_embedding=embedding,
        attention=model.layers * 2 * hidden * (hidden + key_value),
        mlp=model.layers * 3 * hidden * model.intermediate_size,
        norms=(2 * model.layers + 1) * hidden,
        head=0 if model.tied_embeddings else embedding,
    )
