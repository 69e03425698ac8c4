"""A local Hugging Face checkpoint, looked at while planning: only its configuration and the headers of its files.

Weights are read from safetensors alone; a pickle can run code and is never opened.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import llmperf
from llmperf.errors import UserError
from llmperf.types import Model, Problem

from llmperf_lora.stored_weights import stored_shapes_of

WHERE = "framework.base_weights"
SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
MAX_JSON_BYTES = 64 * 2**20
MAX_SHOWN = 3
NOT_COMPARED = (
    "name",
    "title",
    "source",
    "nominal_parameters",
    "nominal_active_parameters",
    "max_positions",
    "initializer_std",
    "stated_parts",
)
"""Facts that do not change what the weights compute."""
DTYPES = ("F32", "F16", "BF16", "F64")


def folder_problems(folder: Path, model: Model) -> Iterator[Problem]:
    """Differences between a checkpoint's weights and a model's: configuration, files, names and shapes."""
    try:
        messages = list(_config_problems(folder / "config.json", model))
        messages = messages or list(_shape_problems(stored_shapes(folder), model))
    except UserError as error:
        messages = [str(error)]
    yield from (Problem(code="lora.weights", where=WHERE, message=message) for message in messages)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file of bounded size; UserError otherwise."""
    try:
        with llmperf.open_regular(path) as file:
            content = file.read(MAX_JSON_BYTES + 1)
        document = json.loads(content) if len(content) <= MAX_JSON_BYTES else None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not JSON: {str(error)[:100]}") from None
    if not isinstance(document, dict):
        raise UserError(f"{path}: expected a JSON object of at most {MAX_JSON_BYTES // 2**20} MiB")
    return document


def _config_problems(path: Path, model: Model) -> Iterator[str]:
    """Facts of the configuration that are not the model's, and what facts cannot express."""
    from llmperf_huggingface.importing import import_config

    stored = import_config(path, model.name)
    for name, expected, found in _differences(model, stored.model):
        yield f"config.json: {name}: expected {expected} ({model.name}), found {found}"
    for line in stored.not_expressed:
        yield f"config.json: expected what the facts of a model express, found {line}"


def _differences(wanted: Any, found: Any, prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Name and both values of each fact that differs."""
    for field in fields(wanted):
        if field.name in NOT_COMPARED:
            continue
        expected, given = getattr(wanted, field.name), getattr(found, field.name)
        if is_dataclass(expected) and is_dataclass(given):
            yield from _differences(expected, given, f"{prefix}{field.name}.")
        elif expected != given:
            yield f"{prefix}{field.name}", _shown(expected), _shown(given)


def _shown(value: Any) -> Any:
    return "a table" if is_dataclass(value) else "none" if value is None else value


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
        with llmperf.open_regular(path) as file:
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
    wanted = stored_shapes_of(model)
    missing = [name for name in wanted if name not in stored]
    if missing:
        yield f"{len(missing)} of {len(wanted)} tensors are missing, such as {', '.join(missing[:MAX_SHOWN])}"
    other = [name for name in wanted if name in stored and stored[name] != wanted[name]]
    for name in other[:MAX_SHOWN]:
        yield f"{name}: expected {list(wanted[name])} ({model.name}), found {list(stored[name])}"
