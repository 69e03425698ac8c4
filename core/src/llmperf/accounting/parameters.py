"""How many parameters a model and its adapters have, counted from the model's facts."""

from __future__ import annotations

from dataclasses import dataclass

from llmperf.errors import unknown
from llmperf.types import Lora, Model


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


def lora_parameters(model: Model, lora: Lora) -> int:
    """Trainable parameters of the adapters: rank x (inputs + outputs) of each target projection, in every layer.

    Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models", section 4.1. Raises UserError for a
    target module that the model does not have.
    """
    shapes = _projections(model)
    for name in lora.target_modules:
        if name not in shapes:
            raise unknown("contract.lora.target_modules", "projection", name, shapes)
    return model.layers * lora.rank * sum(sum(shapes[name]) for name in set(lora.target_modules))


def _projections(model: Model) -> dict[str, tuple[int, int]]:
    """Inputs and outputs of each projection of a layer, by its name in published checkpoints of the family."""
    hidden, inner = model.hidden_size, model.intermediate_size
    key_value = model.kv_heads * (hidden // model.attention_heads)
    separate = {"q_proj": (hidden, hidden), "k_proj": (hidden, key_value), "v_proj": (hidden, key_value)}
    return {
        **({"W_pack": (hidden, 3 * hidden)} if model.family == "baichuan" else separate),
        "o_proj": (hidden, hidden),
        "gate_proj": (hidden, inner),
        "up_proj": (hidden, inner),
        "down_proj": (inner, hidden),
    }
