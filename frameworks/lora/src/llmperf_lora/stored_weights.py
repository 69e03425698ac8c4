"""Names and shapes of a model's weights, and the tensors of published checkpoints that hold them; imports no torch."""

from __future__ import annotations

import re

from llmperf.errors import UserError
from llmperf.types import Model
from llmperf.types.models import Mixture

Shape = tuple[int, ...]
SEPARATE_EXPERTS = ("qwen2_moe", "qwen3_moe", "deepseek_v2", "deepseek_v3", "mixtral")
"""Families whose checkpoints have a tensor for each expert and projection."""
MIXTRAL = {"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}
EXPERTS = re.compile(r"(model\.layers\.\d+)\.mlp\.experts\.(\w+_proj)")


def weight_shapes(model: Model) -> dict[str, Shape]:
    """Name and shape of every parameter of the model: [out, in] for a matrix, [experts, out, in] for experts."""
    hidden = model.hidden_size
    shapes: dict[str, Shape] = {"model.embed_tokens.weight": (model.vocab_size, hidden)}
    for place in range(model.layers):
        layer = _attention(model) | _norms(model)
        if model.mixture is None or place < model.dense_layers:
            layer |= _feed_forward("mlp", model, model.intermediate_size)
        else:
            layer |= _mixture(model, model.mixture)
        shapes |= {f"model.layers.{place}.{name}": shape for name, shape in layer.items()}
    shapes["model.norm.weight"] = (hidden,)
    if not model.tied_embeddings:
        shapes["lm_head.weight"] = (model.vocab_size, hidden)
    return shapes


def _attention(model: Model) -> dict[str, Shape]:
    hidden, heads, head = model.hidden_size, model.attention_heads, model.query_width
    queries, values, keys = heads * head, heads * model.value_width, model.kv_heads * head
    matrices: dict[str, Shape] = {"o_proj": (hidden, values)}
    gains: dict[str, int] = {}
    if (latent := model.latent) is not None:
        if latent.q_rank is None:
            matrices["q_proj"] = (queries, hidden)
        else:
            matrices |= {"q_a_proj": (latent.q_rank, hidden), "q_b_proj": (queries, latent.q_rank)}
            gains["q_a_layernorm"] = latent.q_rank
        matrices["kv_a_proj_with_mqa"] = (latent.kv_rank + latent.rope_width, hidden)
        matrices["kv_b_proj"] = (heads * latent.nope_width + values, latent.kv_rank)
        gains["kv_a_layernorm"] = latent.kv_rank
    elif model.family == "baichuan":
        matrices["W_pack"] = (queries + 2 * keys, hidden)
    else:
        matrices |= {"q_proj": (queries, hidden), "k_proj": (keys, hidden), "v_proj": (keys, hidden)}
    if model.qk_norm == "head":
        gains |= {"q_norm": head, "k_norm": head}
    shapes = {f"self_attn.{name}.weight": shape for name, shape in matrices.items()}
    shapes |= {f"self_attn.{name}.weight": (width,) for name, width in gains.items()}
    shapes |= {f"self_attn.{name}_proj.bias": matrices[f"{name}_proj"][:1] for name in model.attention_bias}
    return shapes | ({"self_attn.sinks": (heads,)} if model.sinks else {})


def _norms(model: Model) -> dict[str, Shape]:
    names = ["input_layernorm", "post_attention_layernorm"]
    if model.norms_per_block == 4:
        names += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    return {f"{name}.weight": (model.hidden_size,) for name in names}


def _feed_forward(prefix: str, model: Model, inner: int) -> dict[str, Shape]:
    hidden = model.hidden_size
    matrices = {"gate_proj": (inner, hidden), "up_proj": (inner, hidden), "down_proj": (hidden, inner)}
    shapes: dict[str, Shape] = {f"{prefix}.{name}.weight": shape for name, shape in matrices.items()}
    if model.feed_forward_bias:
        shapes |= {f"{prefix}.{name}.bias": shape[:1] for name, shape in matrices.items()}
    return shapes


def _mixture(model: Model, mixture: Mixture) -> dict[str, Shape]:
    hidden, experts, inner = model.hidden_size, mixture.experts, mixture.expert_width
    shapes: dict[str, Shape] = {"mlp.router.weight": (experts, hidden)}
    if mixture.router_bias:
        shapes["mlp.router.bias"] = (experts,)
    for name, outputs, inputs in (
        ("gate_proj", inner, hidden),
        ("up_proj", inner, hidden),
        ("down_proj", hidden, inner),
    ):
        shapes[f"mlp.experts.{name}"] = (experts, outputs, inputs)
        if mixture.expert_bias:
            shapes[f"mlp.experts.{name}_bias"] = (experts, outputs)
    if mixture.shared_experts:
        width = mixture.shared_width or mixture.shared_experts * inner
        shapes |= _feed_forward("mlp.shared_expert", model, width)
    if mixture.shared_gate:
        shapes["mlp.shared_expert_gate.weight"] = (1, hidden)
    return shapes


def stored_names(name: str, model: Model) -> tuple[str, ...]:
    """The tensors of a published checkpoint that hold a parameter: one, or one for each expert."""
    if model.mixture is None:
        return (name,)
    layer, mixtral = EXPERTS.fullmatch(name), model.family == "mixtral"
    if layer is None:
        name = name.replace(".mlp.router.", ".block_sparse_moe.gate." if mixtral else ".mlp.gate.")
        return (name.replace(".shared_expert.", ".shared_experts.") if model.latent is not None else name,)
    block, projection = layer.groups()
    middle = f"{block}.block_sparse_moe.experts" if mixtral else f"{block}.mlp.experts"
    last = MIXTRAL[projection] if mixtral else projection
    return tuple(f"{middle}.{expert}.{last}.weight" for expert in range(model.mixture.experts))


def stored_shapes_of(model: Model) -> dict[str, Shape]:
    """Name and shape of every tensor of a model's checkpoint; UserError where it cannot be read."""
    mixture = model.mixture
    if mixture is not None and model.family not in SEPARATE_EXPERTS:
        raise UserError(
            f"checkpoints of family {model.family!r} have the experts of a layer in one tensor, which is not read;"
            f" expected one of {', '.join(SEPARATE_EXPERTS)}, or no base_weights: then they are drawn from the seed"
        )
    if mixture is not None and mixture.balanced_by_bias:
        raise UserError(
            f"the router of {model.name} has a bias that balances experts (e_score_correction_bias), which is not"
            " built; expected no base_weights: then weights are drawn from the seed"
        )
    shapes: dict[str, Shape] = {}
    for name, shape in weight_shapes(model).items():
        names = stored_names(name, model)
        shapes |= dict.fromkeys(names, shape if len(shape) < 3 else shape[1:])
    return shapes
