"""Models whose architecture the facts do not express: the configuration is kept, and `counter.py` counts.

A configuration comes from outside. Its class runs in a process of its own with limits of time and memory, no code of a
hub is taken, and names of implementations, which transformers would fetch, are left out.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from llmperf import cache_dir, printable, write_bytes
from llmperf.errors import UserError
from llmperf.types import ImportedModel

from llmperf_huggingface.configuration_keys import SHOWN

SECONDS = 600
"""Longest count; of the largest published models it takes half a minute on an idle machine."""
PROGRAM = Path(__file__).parent / "counter.py"
LEFT_OUT = frozenset(
    ["architectures", "auto_map", "attn_implementation", "experts_implementation", "use_kernels", "torch_dtype",
     "dtype", "quantization_config", "transformers_version", "name_or_path", "id2label", "label2id"]
)  # fmt: skip
"""Keys, besides those that begin with `_`, that are not the architecture, or that load something."""


def counted_model(values: Mapping[str, Any], where: str, reason: str) -> ImportedModel:
    """The model of a configuration with counted facts; UserError with the reason if it cannot be counted."""
    short = reason.partition("; expected")[0]
    try:
        kept = cleaned(values)
        definition = json.dumps(kept).replace("'", "\\u0027")
        counts = _counts(definition)
    except RecursionError:
        raise UserError(f"{where}: nested too deeply") from None
    except UserError as error:
        raise UserError(f"{short}; it cannot be counted either: {error}") from None
    notes = counts.pop("notes")
    facts: dict[str, Any] = {
        "family": kept["model_type"],
        "position_encoding": "defined",
        **counts.pop("facts"),
        "counted": {"definition": definition, "built_by": "transformers", **counts},
    }
    notes += [f"{short.removeprefix(f'{where}: ')}: FLOPs are counted, {counts['counted_by']}", *counts["caveats"]]
    source = f"{printable(Path(where).name)[:SHOWN]}, model_type {printable(kept['model_type'])[:SHOWN]}"
    return ImportedModel(facts=facts, source=source, notes=tuple(notes))


def cleaned(value: Any) -> Any:
    """A configuration without LEFT_OUT, at every depth."""
    if isinstance(value, Mapping):
        return {key: cleaned(each) for key, each in value.items() if key not in LEFT_OUT and not key.startswith("_")}
    return [cleaned(each) for each in value] if isinstance(value, list) else value


def _counts(definition: str) -> dict[str, Any]:
    """The counter's answer, kept by the configuration, the program and the versions of its packages."""
    try:
        versions = [version(name) for name in ("torch", "transformers")]
    except PackageNotFoundError as error:
        raise UserError(f"needs the package {error.name}: install llmperf-transformers") from None
    key = "\0".join([definition, *versions, PROGRAM.read_text()])
    kept = cache_dir("counted-models") / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
    if kept.is_file():
        return dict(json.loads(kept.read_bytes()))
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "HF_HUB_DISABLE_TELEMETRY": "1"}
    command = [sys.executable, str(PROGRAM)]
    try:
        done = subprocess.run(
            command, input=definition, text=True, capture_output=True, timeout=SECONDS, env=env, check=False
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"the count took more than {SECONDS} s") from None
    try:
        counts = dict(json.loads(done.stdout.splitlines()[-1]))
    except (ValueError, IndexError):
        raise UserError(f"the counter ended with code {done.returncode}") from None
    if "error" in counts:
        raise UserError(printable(str(counts["error"])))
    kept.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(kept, json.dumps(counts).encode())
    return counts
