"""Trainable parameters of low-rank adapters."""

from __future__ import annotations

from llmperf.errors import unknown
from llmperf.types.spec import Lora, Model


def lora_parameters(model: Model, lora: Lora) -> int:
    """Rank x (inputs + outputs) for each adapted matrix of each layer (LoRA, arXiv:2106.09685, section 4.1).

    Raises UserError for a target module that the model does not have.
    """
    shapes = matrix_shapes(model)
    for name in lora.target_modules:
        if name not in shapes:
            raise unknown("contract.lora.target_modules", "module", name, shapes)
    return model.layers * sum(lora.rank * sum(shapes[name]) for name in lora.target_modules)


def matrix_shapes(model: Model) -> dict[str, tuple[int, int]]:
    """Inputs and outputs of each matrix of one layer."""
    hidden, inner = model.hidden_size, model.intermediate_size
    kv = hidden // model.attention_heads * model.kv_heads
    return {
        "q_proj": (hidden, hidden),
        "k_proj": (hidden, kv),
        "v_proj": (hidden, kv),
        "o_proj": (hidden, hidden),
        "gate_proj": (hidden, inner),
        "up_proj": (hidden, inner),
        "down_proj": (inner, hidden),
    }
