"""A Hugging Face configuration (`config.json`) as a model file: its facts, and what they cannot express.

The configuration is data from outside: every value is checked for its type, and what is made of it is checked as any
model file is. Keys that are not understood are listed, never dropped in silence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llmperf.accounting.parameters import count_parameters
from llmperf.cases.fields import LARGEST_INTEGER, check_table
from llmperf.cases.huggingface_types import configuration_types
from llmperf.cases.model_facts import check_model
from llmperf.errors import UserError, unknown
from llmperf.files.json_files import convert, decode, read_bytes
from llmperf.files.text import printable
from llmperf.types.models import Model

MAX_CONFIG_BYTES = 2**20
MAX_LAYERS = 100_000
"""Of a list with an entry for each layer."""
SHOWN = 60
"""Characters of a value in a message."""
Table = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A model made of a configuration."""

    model: Model
    not_expressed: tuple[str, ...]
    """Keys with their values that the facts of a model cannot express, or that are not known."""


class Configuration:
    """The keys of a configuration; each is taken once, and what is left is reported."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self._values = values
        self._where = where
        self._taken: set[str] = set()
        self.parts: list[Configuration] = []
        """Tables of the configuration."""

    def take(self, *names: str) -> Any:
        """The value of the first of these keys that is given; None if none is."""
        found = [name for name in names if self._values.get(name) is not None]
        self._taken.update(names)
        return self._values[found[0]] if found else None

    def whole(self, *names: str, default: int | None = None) -> int:
        """A whole number of at least 1; UserError if it is missing or something else."""
        value = self.take(*names)
        if value is None:
            value = default
        return self._checked(names[0], value, 1)

    def count(self, name: str) -> int:
        """A whole number; 0 if it is not given."""
        return self._checked(name, self.take(name) or 0, 0)

    def _checked(self, name: str, value: Any, least: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST_INTEGER:
            found = "none" if value is None else _shown(value)
            expected = f"a whole number from {least} to {LARGEST_INTEGER}"
            raise UserError(f"{self._where}: {name}: expected {expected}, found {found}")
        return int(value)

    def optional(self, *names: str) -> int | None:
        """The same, or None if it is not given."""
        given = [name for name in names if self._values.get(name) is not None]
        self._taken.update(names)
        return self.whole(given[0]) if given else None

    def number(self, name: str, default: float) -> float:
        """A number that is not negative."""
        value = self.take(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            raise UserError(f"{self._where}: {name}: expected a number of at least 0, found {_shown(value)}")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self.take(name)
        if value is not None and not isinstance(value, bool):
            raise UserError(f"{self._where}: {name}: expected true or false, found {_shown(value)}")
        return default if value is None else value

    def left(self) -> list[str]:
        """Keys that nothing has taken and that mean something, each with its value."""
        known = configuration_types()
        return [
            f"{printable(str(key)[:SHOWN])} = {_shown(value)}"
            for key, value in self._values.items()
            if key not in self._taken
            and key not in known.ignored
            and value not in (None, False, [], {}, known.without_meaning.get(key))
        ]


def import_config(path: Path, name: str) -> Imported:
    """The model of a configuration file, called `name`.

    UserError if the file is no configuration, of a `model_type` that is not known, or has values that do not fit.
    """
    values = decode(read_bytes(path, MAX_CONFIG_BYTES), dict[str, Any], str(path))
    return imported(values, name, str(path))


def imported(values: Mapping[str, Any], name: str, where: str) -> Imported:
    """The model of a configuration's values."""
    kind, known = values.get("model_type"), configuration_types()
    notes: list[str] = []
    if kind in ("llava", "gemma3") and isinstance(values.get("text_config"), Mapping):
        whole, values = values, values["text_config"]
        kind = values.get("model_type", "llama") if kind == "llava" else "gemma3_text"
        notes = ["vision_config: only the language model is imported"] * ("vision_config" in whole)
        missing = {key: value for key, value in known.nested_defaults.get(str(kind), {}).items() if key not in values}
        notes += [f"{key}: not given, {value} as transformers assumes" for key, value in missing.items()]
        tied = {key: whole[key] for key in ("tie_word_embeddings",) if key in whole}
        values = {**missing, **tied, **values}
    if not isinstance(kind, str) or kind not in known.types:
        raise unknown(f"{where}: model_type", "type", str(kind)[:SHOWN], known.types)
    config = Configuration(values, where)
    table = _facts(config, kind, where)
    table |= {"name": name, "title": name, "source": f"{printable(Path(where).name)[:SHOWN]}, model_type {kind}"}
    notes += [line for part in (config, *config.parts) for line in part.left()]
    return Imported(model=_checked(table, where), not_expressed=tuple(notes))


def _checked(table: Table, where: str) -> Model:
    """The model of a table; its nominal figures are its counts, to two digits."""
    check_table(table, Model, where)
    model: Model = convert(table, Model, where)
    count = count_parameters(model)
    model = replace(model, nominal_parameters=_rounded(count.total))
    if model.mixture is not None:
        model = replace(model, nominal_active_parameters=min(_rounded(count.active), model.nominal_parameters))
    check_model(model, where)
    return model


def _rounded(count: int) -> int:
    unit = int(10 ** max(0, len(str(count)) - 2))
    return max(1, round(count / unit)) * unit


def _facts(config: Configuration, kind: str, where: str) -> Table:
    config.take("model_type")
    heads, hidden = config.whole("num_attention_heads"), config.whole("hidden_size")
    table: Table = {
        **configuration_types().types[kind],
        "nominal_parameters": 1,
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
        raise UserError(f"{where}: hidden_act: expected {expected!r} ({kind}), found {_shown(activation)}")
    table |= _attention(config, kind, table)
    table |= _windows(config, table, where)
    if kind.startswith("gemma3"):
        table["embedding_scale"] = math.sqrt(hidden)
        if (scale := config.optional("query_pre_attn_scalar")) is not None:
            table["query_scale_width"] = scale
    mixture = _mixture(config, kind, table)
    return table | ({} if mixture is None else {"mixture": mixture, "nominal_active_parameters": 1})


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
    if kind == "chatglm" and not config.flag("add_qkv_bias", False):
        found["attention_bias"] = []
    found["feed_forward_bias"] = config.flag("mlp_bias", False)
    return found


def _windows(config: Configuration, table: Table, where: str) -> Table:
    """The window and its pattern, if any layer has it."""
    window, layers = config.optional("sliding_window"), table["layers"]
    theta = table.pop("window_rope_theta", 10000.0)
    used = config.take("use_sliding_window")
    every = config.optional("sliding_window_pattern", "_sliding_window_pattern")
    kinds = config.take("layer_types")
    if kinds is not None and (not isinstance(kinds, list) or len(kinds) > MAX_LAYERS):
        raise UserError(f"{where}: layer_types: expected a list of a kind for each layer, found {_shown(kinds)}")
    if window is None or used is False:
        return {"window_pattern": []}
    if kinds is not None:
        spans = {"sliding_attention": "window", "full_attention": "full"}
        strange = next((kind for kind in kinds if not isinstance(kind, str) or kind not in spans), None)
        if strange is not None or len(kinds) != layers:
            found = f"{len(kinds)} of them" if strange is None else _shown(strange)
            raise UserError(f"{where}: layer_types: expected {layers} of {', '.join(spans)}, found {found}")
        pattern = _shortest([spans[kind] for kind in kinds])
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


def _shortest(pattern: list[str]) -> list[str]:
    """The shortest beginning that the whole repeats."""
    for size in range(1, min(len(pattern), 64) + 1):
        if all(kind == pattern[index % size] for index, kind in enumerate(pattern)):
            return pattern[:size]
    return pattern


def _positions(config: Configuration, kind: str, where: str) -> Table:
    nested, local = config.take("rope_parameters"), None
    if isinstance(nested, Mapping) and isinstance(nested.get("full_attention"), Mapping):
        local, nested = nested.get("sliding_attention"), nested["full_attention"]
    older = config.take("rope_scaling")
    values = {**(nested if isinstance(nested, Mapping) else {}), **(older if isinstance(older, Mapping) else {})}
    rope = Configuration(values, f"{where}: rope_scaling")
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
        raise UserError(f"{where}: rope_scaling: rope_type: {expected}, found {_shown(method)}")
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


def _mixture(config: Configuration, kind: str, table: Table) -> Table | None:
    base = table.pop("mixture", None)
    experts = config.optional("num_experts", "num_local_experts", "n_routed_experts")
    if base is None or experts is None:
        return None
    mixture: Table = {**base, "experts": experts, "top_k": config.whole("num_experts_per_tok")}
    mixture["expert_width"] = config.whole("moe_intermediate_size", default=table["intermediate_size"])
    mixture["shared_experts"] = config.count("n_shared_experts")
    width = config.optional("shared_expert_intermediate_size")
    if width is not None:
        mixture |= {"shared_experts": max(1, width // mixture["expert_width"]), "shared_width": width}
    mixture["dense_layers"] = config.count("first_k_dense_replace")
    mixture["normalized_scores"] = config.flag("norm_topk_prob", base.get("normalized_scores", True))
    mixture["score_scale"] = config.number("routed_scaling_factor", 1.0)
    if (score := config.take("scoring_func")) is not None:
        mixture["router_score"] = score
    if (choice := config.take("topk_method")) is not None:
        mixture["balanced_by_bias"] = choice == "noaux_tc"
    if "latent" in table:
        mixture["groups"] = config.optional("n_group") or 1
        mixture["top_groups"] = config.optional("topk_group") or 1
    return mixture


def _shown(value: object) -> str:
    try:
        text = printable(repr(value))
    except (RecursionError, ValueError):  # nested deeply, or an integer of thousands of digits
        return "a value that is too long"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
