"""Initial weights of torchtitan's parameters, assembled from those that the contract defines by name and shape."""

from __future__ import annotations

import re

import torch
from llmperf.types import Model
from llmperf_torchkit.weights import Shard, fill_part

NAMES = {
    "tok_embeddings.weight": "model.embed_tokens.weight",
    "norm.weight": "model.norm.weight",
    "lm_head.weight": "lm_head.weight",
}
PARTS = {
    "attention.wo.weight": "self_attn.o_proj.weight",
    "attention.q_norm.weight": "self_attn.q_norm.weight",
    "attention.k_norm.weight": "self_attn.k_norm.weight",
    "feed_forward.w1.weight": "mlp.gate_proj.weight",
    "feed_forward.w3.weight": "mlp.up_proj.weight",
    "feed_forward.w2.weight": "mlp.down_proj.weight",
    "attention_norm.weight": "input_layernorm.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "moe.router.gate.weight": "mlp.router.weight",
}
"""llmperf's names of the parts of a layer."""
EXPERTS = {"w1_EFD": "gate_proj", "w3_EFD": "up_proj", "w2_EDF": "down_proj"}
LAYER = re.compile(r"layers\.(\d+)\.(.*)")
WRAPPERS = re.compile(r"_orig_mod\.|_checkpoint_wrapped_module\.")


@torch.no_grad()
def fill_weights(model: torch.nn.Module, facts: Model, seed: int) -> None:
    """Set this rank's parts of all parameters to their initial values."""
    for name, parameter in model.named_parameters():
        shard = Shard(WRAPPERS.sub("", name), parameter)
        _fill(shard, shard.ranges(), facts, seed)


def _fill(shard: Shard, ranges: list[range], facts: Model, seed: int) -> None:
    name, shape, part = shard.name, shard.shape, shard.local
    if name in NAMES:
        fill_part(NAMES[name], shape, part, tuple(ranges), facts, seed)
        return
    match = LAYER.fullmatch(name)
    assert match is not None, name
    prefix, rest = f"model.layers.{match[1]}.", match[2]
    if rest in PARTS:
        fill_part(prefix + PARTS[rest], shape, part, tuple(ranges), facts, seed)
    elif rest == "attention.qkv_linear.wqkv.weight":
        rows, columns = ranges
        whole = _fused(prefix, facts, seed)
        part.copy_(whole[rows.start : rows.stop, columns.start : columns.stop])
    else:
        projection = EXPERTS[rest.rpartition(".")[2]]
        for place, expert in enumerate(ranges[0]):
            named = f"{prefix}mlp.experts.{expert}.{projection}.weight"
            fill_part(named, shape[1:], part[place], tuple(ranges[1:]), facts, seed)


def _fused(prefix: str, facts: Model, seed: int) -> torch.Tensor:
    """Queries, key and value of each group of queries, float32 [rows, hidden_size].

    Llama's class rotates neighbours, llmperf and Hugging Face the halves of a head: its rows go in another order.
    """
    width, hidden, split = facts.query_width, facts.hidden_size, []
    for projection, heads in (("q", facts.attention_heads), ("k", facts.kv_heads), ("v", facts.kv_heads)):
        rows = torch.empty(heads * width, hidden)
        whole = (range(heads * width), range(hidden))
        fill_part(f"{prefix}self_attn.{projection}_proj.weight", (heads * width, hidden), rows, whole, facts, seed)
        if projection != "v" and facts.qk_norm == "none":
            rows = rows.view(heads, 2, width // 2, hidden).transpose(1, 2).reshape(heads * width, hidden)
        split.append(rows.view(facts.kv_heads, -1, hidden))
    return torch.cat(split, dim=1).flatten(0, 1)


def count_parameters(model: torch.nn.Module) -> int:
    """Parameters of the whole model or stage, tied ones once."""
    return sum(parameter.numel() for parameter in model.parameters())
