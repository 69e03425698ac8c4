"""The contract of a run by path, so that two contracts can be compared part by part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llmperf.files.json_files import builtins
from llmperf.reporting import cells
from llmperf.types import Result

DESCRIPTIONS = ("title", "source")
"""Parts of a model that only describe it."""


def contract_parts(result: Result) -> dict[str, str]:
    """The contract and the facts of the model by path: two differ in what `results.alignment.unlike` says."""
    facts = {name: value for name, value in builtins(result.model).items() if name not in DESCRIPTIONS}
    return {**dict(_flat("", builtins(result.contract))), **dict(_flat("model.", facts))}


def _flat(prefix: str, value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each scalar by its path, as text."""
    for name, one in value.items():
        if isinstance(one, Mapping):
            yield from _flat(f"{prefix}{name}.", one)
        else:
            yield prefix + name, _scalar(one)


def _scalar(value: Any) -> str:
    """Equal values give equal text, whole numbers however they are typed; nothing is cut off."""
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    text = cells.text(whole)
    return cells.printable(text, len(text))
