"""A local Hugging Face checkpoint, looked at while planning: only its configuration and the headers of its files.

Weights are read from safetensors alone; a pickle can run code and is never opened.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmperf import open_regular
from llmperf.errors import UserError
from llmperf.types import Problem

if TYPE_CHECKING:
    from llmperf.types import Model

WHERE = "framework.base_weights"
SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
MAX_JSON_BYTES = 64 * 2**20
MAX_SHOWN = 3
DTYPES = ("F32", "F16", "BF16", "F64")


def folder_problems(folder: Path, model: Model) -> Iterator[Problem]:
    """Why a checkpoint's weights are not those of a model: its configuration, its files, their names and shapes."""
    try:
        config = read_json(folder / "config.json")
        messages = list(_config_problems(config, model))
        messages = messages or list(_shape_problems(stored_shapes(folder), model))
    except UserError as error:
        messages = [str(error)]
    yield from (Problem(code="lora.weights", where=WHERE, message=message) for message in messages)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file of bounded size; UserError otherwise."""
    try:
        with open_regular(path) as file:
            content = file.read(MAX_JSON_BYTES + 1)
        document = json.loads(content) if len(content) <= MAX_JSON_BYTES else None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not JSON: {str(error)[:100]}") from None
    if not isinstance(document, dict):
        raise UserError(f"{path}: expected a JSON object of at most {MAX_JSON_BYTES // 2**20} MiB")
    return document


def _config_problems(config: Mapping[str, Any], model: Model) -> Iterator[str]:
    for key, expected in _expected_config(model).items():
        found = _configured(config, key)
        same = abs(found - expected) <= 1e-9 * abs(expected) if _numbers(found, expected) else found == expected
        if not same:
            yield f"config.json: {key}: expected {expected} ({model.name}), found {found!r}"
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    kind = scaling.get("rope_type", scaling.get("type", "default")) if isinstance(scaling, dict) else scaling
    if kind != "default":
        yield f"config.json: rotary positions are scaled ({str(kind)[:40]!r}), those of {model.name} are not"
    if config.get("attention_bias") or config.get("mlp_bias"):
        yield f"config.json: projections have biases, those of {model.name} have none"


def _numbers(*values: object) -> bool:
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)


def _expected_config(model: Model) -> dict[str, Any]:
    expected: dict[str, Any] = {
        "model_type": model.family,
        "hidden_size": model.hidden_size,
        "intermediate_size": model.intermediate_size,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.attention_heads,
        "vocab_size": model.vocab_size,
        "rms_norm_eps": model.norm_eps,
        "tie_word_embeddings": model.tied_embeddings,
    }
    if model.family == "llama":
        expected |= {"num_key_value_heads": model.kv_heads, "rope_theta": model.rope_theta or 10000.0}
    return expected


def _configured(config: Mapping[str, Any], key: str) -> Any:
    """What a configuration says, or means where it says nothing."""
    if key == "num_key_value_heads":
        return config.get(key) or config.get("num_attention_heads")
    if key == "rope_theta":
        nested = config.get("rope_parameters")
        return config.get(key) or (nested.get(key) if isinstance(nested, dict) else None) or 10000.0
    return config.get(key, False) if key == "tie_word_embeddings" else config.get(key)


def stored_files(folder: Path) -> list[Path]:
    """The safetensors files of a checkpoint; UserError if there are none, or an index names what is not there."""
    if (folder / INDEX).is_file():
        listed = read_json(folder / INDEX).get("weight_map")
        names = sorted({str(name) for name in listed.values()}) if isinstance(listed, dict) else []
        foreign = [name for name in names if Path(name).name != name or not (folder / name).is_file()]
        if foreign or not names:
            raise UserError(f"{folder / INDEX}: expected names of files beside it, found {(foreign or names)[:1]}")
        return [folder / name for name in names]
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    pickled = next((path.name for kind in ("*.bin", "*.pt", "*.pth") for path in folder.glob(kind)), None)
    other = "" if pickled is None else f"; {pickled} is a pickle, which can run code: convert it to safetensors"
    raise UserError(f"{folder}: expected {SINGLE} or {INDEX}{other}")


def stored_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor, from the headers; UserError for a damaged file or a dtype that is no float."""
    found: dict[str, tuple[int, ...]] = {}
    for path in stored_files(folder):
        for name, entry in _header(path).items():
            if name == "__metadata__":
                continue
            try:
                shape, dtype = tuple(int(size) for size in entry["shape"]), entry["dtype"]
            except (TypeError, KeyError, ValueError):
                raise UserError(f"{path}: damaged header at {name[:80]!r}") from None
            if dtype not in DTYPES and len(shape) > 1:
                raise UserError(f"{path}: {name[:80]}: expected one of {', '.join(DTYPES)}, found {str(dtype)[:20]!r}")
            found[name] = shape
    return found


def _header(path: Path) -> dict[str, Any]:
    """Eight bytes of length, then JSON: the format of https://github.com/huggingface/safetensors."""
    try:
        with open_regular(path) as file:
            start = file.read(8)
            size = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
            header = json.loads(file.read(size)) if 0 < size <= MAX_JSON_BYTES else None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise UserError(f"{path}: not a safetensors file")
    return header


def _shape_problems(stored: Mapping[str, tuple[int, ...]], model: Model) -> Iterator[str]:
    wanted = weight_shapes(model)
    missing = [name for name in wanted if name not in stored]
    if missing:
        yield f"{len(missing)} of {len(wanted)} tensors are missing, such as {', '.join(missing[:MAX_SHOWN])}"
    other = [name for name in wanted if name in stored and stored[name] != wanted[name]]
    for name in other[:MAX_SHOWN]:
        yield f"{name}: expected {list(wanted[name])} ({model.name}), found {list(stored[name])}"


def weight_shapes(model: Model) -> dict[str, tuple[int, ...]]:
    """Name and shape of every weight, as published checkpoints of the family have them; [out, in] for a matrix."""
    hidden, inner = model.hidden_size, model.intermediate_size
    grouped = model.kv_heads * (hidden // model.attention_heads)
    layer = {
        "self_attn.o_proj": (hidden, hidden),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
        "input_layernorm": (hidden,),
        "post_attention_layernorm": (hidden,),
    }
    if model.family == "baichuan":
        layer["self_attn.W_pack"] = (3 * hidden, hidden)
    else:
        layer["self_attn.q_proj"] = (hidden, hidden)
        layer["self_attn.k_proj"] = layer["self_attn.v_proj"] = (grouped, hidden)
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (model.vocab_size, hidden)}
    for number in range(model.layers):
        found |= {f"model.layers.{number}.{name}.weight": shape for name, shape in layer.items()}
    found["model.norm.weight"] = (hidden,)
    if not model.tied_embeddings:
        found["lm_head.weight"] = (model.vocab_size, hidden)
    return found
