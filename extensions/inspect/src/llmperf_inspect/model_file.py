"""The text of a model file."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from llmperf import printable
from llmperf.types import Model

LARGE = 10**7
"""Whole numbers from here on are written with digit groups."""


def model_text(model: Model) -> str:
    """The model file of a model; reading it gives the same model."""
    values = dict(_given(model))
    lines, tables = [], {}
    for key, value in values.items():
        if dataclasses.is_dataclass(value[0] if isinstance(value, tuple) and value else value):
            tables[key] = value
        else:
            lines.append(f"{key} = {_value(value)}")
    for key, value in tables.items():
        many = isinstance(value, tuple)
        for table in value if many else (value,):
            lines += ["", f"[[{key}]]" if many else f"[{key}]"]
            lines += [f"{name} = {_value(entry)}" for name, entry in _given(table)]
    return "\n".join(lines) + "\n"


def _given(facts: Any) -> Iterator[tuple[str, Any]]:
    """The fields of a dataclass that are required or not the default."""
    for field in dataclasses.fields(facts):
        value = getattr(facts, field.name)
        if field.default is dataclasses.MISSING or value != field.default:
            yield field.name, value


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        if value.startswith("{") and "'" not in value:  # JSON, which has quotes and backslashes of its own
            return f"'{printable(value)}'"
        text = printable(value).replace("\\", "\\\\").replace('"', '\\"')
        return f'"{text}"'
    return f"{value:_}" if isinstance(value, int) and value >= LARGE else repr(value)
