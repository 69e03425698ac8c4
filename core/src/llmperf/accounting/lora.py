"""How many parameters low-rank adapters have."""

from __future__ import annotations

from llmperf.errors import unknown
from llmperf.types import Lora, Model


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
