"""A Hugging Face configuration (`config.json`) as the facts of a model, and what they cannot express.

The configuration is data from outside: every value is checked for its type, and the core checks what is made of it as
any model file. Keys that are not understood are listed, never dropped in silence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from llmperf import printable, read_bytes
from llmperf.errors import UserError
from llmperf.types import ImportedModel

from llmperf_huggingface.configuration_keys import (
    SHOWN,
    Configuration,
    NotExpressedError,
    configuration_types,
    shown,
)
from llmperf_huggingface.counting import counted_model

MAX_CONFIG_BYTES = 2**20
MAX_LAYERS = 100_000
"""Most entries of a list with one entry per layer."""
Table = dict[str, Any]


def model_in(path: Path) -> ImportedModel:
    """The model of a configuration file, with counted FLOPs if facts cannot express it; UserError for bad values."""
    try:
        values = msgspec.json.decode(read_bytes(path, MAX_CONFIG_BYTES), type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"{path}: {error}") from None
    return model_of(values, str(path))


def model_of(values: Mapping[str, Any], where: str) -> ImportedModel:
    """The model of a configuration's values."""
    try:
        return expressed(values, where)
    except NotExpressedError as error:
        return counted_model(values, where, str(error))


def expressed(values: Mapping[str, Any], where: str) -> ImportedModel:
    """The model by its facts; NotExpressedError if these have no place for what it is."""
    kind, known = values.get("model_type"), configuration_types()
    not_expressed: list[str] = []
    defaults: Mapping[str, Any] = {}
    if kind in ("llava", "gemma3") and isinstance(values.get("text_config"), Mapping):
        whole, values = values, values["text_config"]
        kind = values.get("model_type", "llama") if kind == "llava" else "gemma3_text"
        not_expressed = ["vision_config: only the language model is imported"] * ("vision_config" in whole)
        defaults = known.nested_defaults.get(str(kind), {})
        tied = {key: whole[key] for key in ("tie_word_embeddings",) if key in whole}
        values = {**tied, **values}
    if kind is None:
        raise UserError(f"{where}: expected model_type, found none")
    if not isinstance(kind, str) or kind not in known.types:
        expected = f"expected one of {', '.join(sorted(known.types))}"
        refused = NotExpressedError if isinstance(kind, str) else UserError
        raise refused(f"{where}: model_type: unknown architecture {shown(kind)}; {expected}")
    missing = {k: v for k, v in {**known.class_defaults.get(kind, {}), **defaults}.items() if k not in values}
    notes = [f"{key}: not given, {value} as transformers assumes" for key, value in missing.items()]
    config = Configuration({**missing, **values}, where)
    facts = _facts(config, kind, where)
    not_expressed += [line for part in (config, *config.parts) for line in part.left()]
    return ImportedModel(
        facts=facts,
        source=f"{printable(Path(where).name)[:SHOWN]}, model_type {kind}",
        not_expressed=tuple(not_expressed),
        notes=(*notes, *config.not_used()),
    )


def _facts(config: Configuration, kind: str, where: str) -> Table:
    config.take("model_type")
    config.check_required()
    heads, hidden = config.whole("num_attention_heads"), config.whole("hidden_size")
    table: Table = {
        **configuration_types().types[kind],
        "vocab_size": config.whole("vocab_size", "padded_vocab_size"),
        "hidden_size": hidden,
        "intermediate_size": config.whole("intermediate_size", "ffn_hidden_size"),
        "layers": config.whole("num_hidden_layers", "num_layers"),
        "attention_heads": heads,
        "kv_heads": config.whole("num_key_value_heads", "multi_query_group_num", default=heads),
        "max_positions": config.whole("max_position_embeddings", "model_max_length", "seq_length"),
        "norm_eps": config.number("rms_norm_eps", config.number("layernorm_epsilon", 1e-6)),
        "position_encoding": "rope",
        "tied_embeddings": config.flag("tie_word_embeddings", kind.startswith("gemma3")),
        "initializer_std": config.number("initializer_range", 0.02),
    }
    if kind == "baichuan" and hidden == 5120:  # as its own code does
        table["position_encoding"] = "alibi"
    else:
        table |= _positions(config, kind, where)
    activation = config.take("hidden_activation", "hidden_act")
    expected = configuration_types().activations[table.get("activation", "swiglu")]
    if activation not in (None, expected):
        raise NotExpressedError(f"{where}: hidden_act: expected {expected!r} ({kind}), found {shown(activation)}")
    table |= _attention(config, kind, table)
    table |= _windows(config, kind, table, where)
    if kind.startswith("gemma3"):
        table["embedding_scale"] = math.sqrt(hidden)
        if (scale := config.optional("query_pre_attn_scalar")) is not None:
            table["query_scale_width"] = scale
    mixture = _mixture(config, kind, table, where)
    return table | ({} if mixture is None else {"mixture": mixture})


def _attention(config: Configuration, kind: str, table: Table) -> Table:
    found: Table = {}
    hidden, heads = table["hidden_size"], table["attention_heads"]
    if "latent" in table:
        q_rank = config.optional("q_lora_rank")
        found["latent"] = {
            **({} if q_rank is None else {"q_rank": q_rank}),
            "kv_rank": config.whole("kv_lora_rank"),
            "rope_width": config.whole("qk_rope_head_dim"),
            "nope_width": config.whole("qk_nope_head_dim"),
            "value_width": config.whole("v_head_dim"),
        }
        config.take("head_dim", "qk_head_dim")
    else:
        width = config.optional("head_dim", "kv_channels")
        if width is not None and width * heads != hidden:
            found["head_width"] = width
    default = bool(table.get("attention_bias"))
    if not config.flag("qkv_bias" if kind == "qwen2_moe" else "attention_bias", default):
        found["attention_bias"] = []
    elif not default:
        found["attention_bias"] = ["q", "k", "v", "o"]
    if kind == "glm4_moe" and config.flag("use_qk_norm", False):
        found["qk_norm"] = "head"
    if kind == "phi3":  # which its long variants stretch positions from; their rope_type is refused
        config.take("original_max_position_embeddings")
    if kind == "chatglm" and not config.flag("add_qkv_bias", False):
        found["attention_bias"] = []
    found["feed_forward_bias"] = config.flag("mlp_bias", False)
    return found


def _windows(config: Configuration, kind: str, table: Table, where: str) -> Table:
    """The window and its pattern, if any layer has it."""
    window, layers = config.optional("sliding_window"), table["layers"]
    theta = table.pop("window_rope_theta", 10000.0)
    used = config.flag("use_sliding_window", not kind.startswith("qwen"))
    every = config.optional("sliding_window_pattern", "_sliding_window_pattern")
    spans = _spans(config.take("layer_types"), layers, where)
    full_first = config.count("max_window_layers", 28) if kind in ("qwen2", "qwen3", "qwen2_moe") else 0
    if window is None or not used:
        return {"window_pattern": []}
    if spans is not None:
        pattern = _shortest(spans)
    elif kind in ("qwen2", "qwen3", "qwen2_moe"):
        if layers > MAX_LAYERS:
            raise UserError(f"{where}: num_hidden_layers: expected at most {MAX_LAYERS}, found {layers}")
        if kind == "qwen2_moe":  # windows in every other layer of the first
            windowed = [layer % 2 == 0 and layer < full_first for layer in range(layers)]
        else:
            windowed = [layer >= full_first for layer in range(layers)]
        pattern = _shortest(["window" if is_windowed else "full" for is_windowed in windowed])
    elif every is not None and every <= layers:
        pattern = ["window"] * (every - 1) + ["full"]
    else:
        pattern = list(table.get("window_pattern", ()))
    if pattern and "window" not in pattern:
        return {"window_pattern": []}
    pattern = pattern[:layers] if pattern != ["window"] else []
    windows: Table = {"window": window, "window_pattern": pattern}
    if table["family"] == "gemma3":
        windows["window_rope_theta"] = config.number("rope_local_base_freq", theta)
    return windows


def _spans(kinds: Any, layers: int, where: str) -> list[str] | None:
    """Span of each layer's attention, from `layer_types`; None if it is not given."""
    names = {"sliding_attention": "window", "full_attention": "full"}
    if kinds is None:
        return None
    if not isinstance(kinds, list) or len(kinds) > MAX_LAYERS:
        raise UserError(f"{where}: layer_types: expected a list of a kind for each layer, found {shown(kinds)}")
    for kind in kinds:
        if not isinstance(kind, str) or kind not in names:
            expected = f"expected {layers} of {', '.join(names)}"
            raise NotExpressedError(f"{where}: layer_types: {expected}, found {shown(kind)}")
    if len(kinds) != layers:
        raise UserError(f"{where}: layer_types: expected {layers} of {', '.join(names)}, found {len(kinds)} of them")
    return [names[kind] for kind in kinds]


def _shortest(pattern: list[str]) -> list[str]:
    """The shortest beginning that the whole repeats."""
    for size in range(1, min(len(pattern), 64) + 1):
        if all(kind == pattern[index % size] for index, kind in enumerate(pattern)):
            return pattern[:size]
    return pattern


def _positions(config: Configuration, kind: str, where: str) -> Table:
    nested, local = config.table("rope_parameters"), None
    if isinstance(nested.get("full_attention"), Mapping):
        local, nested = nested.get("sliding_attention"), nested["full_attention"]
    rope = Configuration({**nested, **config.table("rope_scaling")}, f"{where}: rope_scaling")
    config.parts.append(rope)
    theta = config.number("rope_theta", rope.number("rope_theta", 1e6 if kind.startswith("gemma3") else 10000.0))
    if kind == "chatglm":
        theta *= config.number("rope_ratio", 1.0)
    table: Table = {"rope_theta": theta}
    if isinstance(local, Mapping):
        sliding = Configuration(local, f"{where}: rope_parameters: sliding_attention")
        sliding.take("rope_type")
        table["window_rope_theta"] = sliding.number("rope_theta", theta)
        config.parts.append(sliding)
    share = config.number("partial_rotary_factor", rope.number("partial_rotary_factor", 0.0))
    if share:
        table["rotated_share"] = share
    method = rope.take("rope_type", "type") or "default"
    if method == "default":
        return table
    if method not in ("linear", "llama3", "yarn"):
        expected = "expected default, linear, llama3 or yarn"
        raise NotExpressedError(f"{where}: rope_scaling: rope_type: {expected}, found {shown(method)}")
    scaling: Table = {"method": method, "factor": rope.number("factor", 1.0)}
    for key, field in configuration_types().rope_keys[method].items():
        value = rope.take(key)
        if value is not None:
            scaling[field] = value
    if method == "yarn" and "score_scale" in scaling:
        scores = rope.number("mscale_all_dim", 0.0)
        scaling["attention_scale"] = _mscale(scaling["factor"], rope.number("mscale", 1.0)) / _mscale(
            scaling["factor"], scores
        )
    return table | {"rope_scaling": scaling}


def _mscale(factor: float, scale: float) -> float:
    return 0.1 * scale * math.log(factor) + 1 if factor > 1 else 1.0


def _mixture(config: Configuration, kind: str, table: Table, where: str) -> Table | None:
    base = table.pop("mixture", None)
    if base is None:
        return None
    experts = config.whole("num_experts", "num_local_experts", "n_routed_experts")
    mixture: Table = {**base, "experts": experts, "top_k": config.whole("num_experts_per_tok")}
    mixture["expert_width"] = config.whole("moe_intermediate_size", default=table["intermediate_size"])
    mixture["shared_experts"] = config.count("n_shared_experts")
    if width := config.count("shared_expert_intermediate_size"):
        mixture |= {"shared_experts": max(1, width // mixture["expert_width"]), "shared_width": width}
    mixture["dense_layers"] = config.count("first_k_dense_replace")
    mixture["normalized_scores"] = config.flag("norm_topk_prob", base.get("normalized_scores", True))
    mixture["score_scale"] = config.number("routed_scaling_factor", 1.0)
    if (score := config.take("scoring_func")) is not None:
        mixture["router_score"] = score
    choice = config.take("topk_method") or ("greedy" if kind == "deepseek_v2" else "noaux_tc")
    if "latent" in table or kind == "glm4_moe":
        if choice not in ("greedy", "group_limited_greedy", "noaux_tc"):
            expected = "expected greedy, group_limited_greedy or noaux_tc"
            raise NotExpressedError(f"{where}: topk_method: {expected}, found {shown(choice)}")
        groups = {"groups": config.optional("n_group") or 1, "top_groups": config.optional("topk_group") or 1}
        mixture |= {"balanced_by_bias": choice == "noaux_tc"} | ({} if choice == "greedy" else groups)
    return mixture
