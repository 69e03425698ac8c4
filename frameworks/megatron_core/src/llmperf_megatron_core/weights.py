"""Initial weights of megatron-core's parameters: the part of a rank, drawn from the contract's names and shapes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import llmperf
import torch
from llmperf.types import Layout, Model
from llmperf_torchkit.weights import fill_part

NAMES = {
    "embedding.word_embeddings.weight": "model.embed_tokens.weight",
    "output_layer.weight": "lm_head.weight",
    "decoder.final_layernorm.weight": "model.norm.weight",
}
PARTS = {
    "input_layernorm.weight": "input_layernorm.weight",
    "self_attention.linear_qkv.layer_norm_weight": "input_layernorm.weight",
    "self_attention.linear_proj.weight": "self_attn.o_proj.weight",
    "self_attention.q_layernorm.weight": "self_attn.q_norm.weight",
    "self_attention.k_layernorm.weight": "self_attn.k_norm.weight",
    "pre_mlp_layernorm.weight": "post_attention_layernorm.weight",
    "mlp.linear_fc1.layer_norm_weight": "post_attention_layernorm.weight",
    "mlp.linear_fc2.weight": "mlp.down_proj.weight",
    "mlp.router.weight": "mlp.router.weight",
}
"""llmperf's names of the parts of a layer; Transformer Engine keeps norms with the projection that follows."""
EXPERT = re.compile(r"mlp\.experts\.(?:local_experts\.(\d+)\.linear_(fc[12])\.weight|linear_(fc[12])\.weight(\d+))")
COLUMNS = ("o_proj.weight", "down_proj.weight")
"""Parameters whose columns tensor-parallel ranks divide; they divide the rows of the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a rank is: its tensor-parallel rank, its expert-parallel rank, and the number of its first layer."""

    tensor: int
    expert: int
    first_layer: int


@torch.no_grad()
def fill_weights(
    named: Iterable[tuple[str, torch.Tensor]], place: Place, layout: Layout, model: Model, seed: int
) -> None:
    """Set the parameters of one model chunk to their initial values."""
    for name, parameter in named:
        rows = torch.cat(list(_pieces(name, place, layout, model, seed)))
        if rows.shape != parameter.shape:
            raise ValueError(f"{name}: expected {tuple(parameter.shape)}, found {tuple(rows.shape)}")
        parameter.copy_(rows)


def _pieces(name: str, place: Place, layout: Layout, model: Model, seed: int) -> Iterator[torch.Tensor]:
    """This rank's part of a parameter, in blocks of rows."""
    ways, rank = layout.tensor_parallel, place.tensor

    def draw(ours: str, shape: tuple[int, ...], divided: str = "rows") -> torch.Tensor:
        """A rank's part of one of llmperf's parameters."""
        axis = {"rows": 0, "columns": 1, "none": None}[divided]
        ranges = [range(size) for size in shape]
        if axis is not None:
            each = shape[axis] // ways
            ranges[axis] = range(rank * each, (rank + 1) * each)
        part = torch.empty([len(indexes) for indexes in ranges])
        fill_part(ours, shape, part, tuple(ranges), model, seed)
        return part

    hidden, width = model.hidden_size, model.query_width
    if name in NAMES:
        ours = NAMES[name]
        if ours == "lm_head.weight" and model.tied_embeddings:
            ours = NAMES["embedding.word_embeddings.weight"]
        yield draw(ours, (hidden,), "none") if "norm" in ours else draw(ours, (model.vocab_size, hidden))
        return
    layer, _, part = name.removeprefix("decoder.layers.").partition(".")
    prefix = f"model.layers.{int(layer) + place.first_layer}."
    if (match := EXPERT.fullmatch(part)) is not None:
        local, kind = match[1] or match[4], match[2] or match[3]
        mixture = model.mixture
        assert mixture is not None
        expert = int(local) + place.expert * (mixture.experts // layout.expert_parallel)
        names = ("gate_proj", "up_proj") if kind == "fc1" else ("down_proj",)
        shape = (mixture.expert_width, hidden) if kind == "fc1" else (hidden, mixture.expert_width)
        divided = "none" if layout.expert_parallel > 1 else "rows" if kind == "fc1" else "columns"
        for projection in names:
            yield draw(f"{prefix}mlp.experts.{expert}.{projection}.weight", shape, divided)
    elif part == "mlp.linear_fc1.weight":  # each rank has its part of the gate, then of the other
        for projection in ("gate_proj", "up_proj"):
            yield draw(f"{prefix}mlp.{projection}.weight", (model.intermediate_size, hidden))
    elif part.startswith("self_attention.linear_qkv.") and not part.endswith("layer_norm_weight"):
        # for each group of queries: the queries of its heads, its key, its value
        kind = part.rpartition(".")[2]
        rest = (hidden,) if kind == "weight" else ()
        groups = model.kv_heads // ways
        split = []
        for projection, heads in (("q", model.attention_heads), ("k", model.kv_heads), ("v", model.kv_heads)):
            values = draw(f"{prefix}self_attn.{projection}_proj.{kind}", (heads * width, *rest))
            split.append(values.view(groups, -1, *rest))
        yield torch.cat(split, dim=1).flatten(0, 1)
    else:
        ours = prefix + PARTS[part]
        if llmperf.initial_constant(ours, model) is not None:
            yield draw(ours, (width if "self_attn" in ours else hidden,), "none")
        elif part == "mlp.router.weight":
            assert model.mixture is not None
            yield draw(ours, (model.mixture.experts, hidden), "none")
        else:
            inner = model.attention_heads * width if "o_proj" in ours else model.intermediate_size
            yield draw(ours, (hidden, inner), "columns")
