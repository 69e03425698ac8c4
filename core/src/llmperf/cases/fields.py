"""The keys, types and bounds of a document, read from the dataclass that it is converted to."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from llmperf.errors import UserError, unknown
from llmperf.files import json_files
from llmperf.types.units import Below, Minimum

T = TypeVar("T")

LARGEST_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly; results with larger integers are refused."""


@cache
def hints(kind: type) -> dict[str, Any]:
    """Resolved annotations of a dataclass, bounds included."""
    return typing.get_type_hints(kind, include_extras=True)


def bound(annotation: Any, kind: type[Minimum] | type[Below]) -> float | None:
    """The bound of a kind in an annotation: the inclusive minimum, or the exclusive maximum; None if it has none."""
    for part in (annotation, *typing.get_args(annotation)):
        for mark in getattr(part, "__metadata__", ()):
            if isinstance(mark, kind):
                return mark.value
    return None


def check_bound(value: Any, annotation: Any, where: str) -> None:
    """UserError for a number outside the bounds of its field, not finite, or too large an integer for JSON."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return
    if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        shown = value if abs(value) < 10**40 else "a longer one"
        raise UserError(f"{where}: expected at most {LARGEST_INTEGER}, found {shown}")
    if not math.isfinite(value):
        raise UserError(f"{where}: expected a finite number, found {value}")
    low, high = bound(annotation, Minimum), bound(annotation, Below)
    if (low is not None and value < low) or (high is not None and value >= high):
        below = "" if high is None else f" and below {high}"
        raise UserError(f"{where}: expected at least {low}{below}, found {value}")


def dataclass_in(annotation: Any) -> type | None:
    """The dataclass in an annotation such as `Lora` or `Lora | None`; None for other annotations."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        kinds = (dataclass_in(option) for option in typing.get_args(annotation))
        return next((kind for kind in kinds if kind is not None), None)
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        return annotation
    return None


def check_table(table: Any, kind: type, where: str) -> None:
    """UserError for the first key, at any depth, that is not a field of `kind`, or number outside its bounds."""
    if not isinstance(table, Mapping):
        raise UserError(f"{where}: expected a table, found {type(table).__name__} {table!r}")
    for key, value in table.items():
        if key not in hints(kind):
            raise unknown(where, "key", str(key), hints(kind))
        path = f"{where}.{key}" if ": " in where else f"{where}: {key}"
        inner = dataclass_in(hints(kind)[key])
        if inner is not None and isinstance(value, Mapping):
            check_table(value, inner, path)
        item = next((kind for kind in map(dataclass_in, typing.get_args(hints(kind)[key])) if kind), None)
        if item is not None and isinstance(value, list):
            for index, entry in enumerate(value):
                check_table(entry, item, f"{path}[{index}]")
        if item is not None and isinstance(value, Mapping) and typing.get_origin(hints(kind)[key]) is Mapping:
            for name, entry in value.items():
                check_table(entry, item, f"{path}.{name}")
        check_bound(value, hints(kind)[key], path)
        _check_choices(value, hints(kind)[key], path)


def _check_choices(value: Any, annotation: Any, where: str) -> None:
    """UserError for a text that is not among the values of its field, or of an entry of its field's list."""
    options = typing.get_args(annotation)
    if type(None) in options and len(options) == 2:
        _check_choices(value, options[options[0] is type(None)], where)
    elif typing.get_origin(annotation) is typing.Literal:
        if isinstance(value, str) and value not in options:
            raise UserError(f"{where}: expected one of {', '.join(map(str, options))}, found {value!r}")
    elif typing.get_origin(annotation) is tuple and isinstance(value, list):
        for index, entry in enumerate(value):
            _check_choices(entry, options[0], f"{where}[{index}]")


def with_unset(table: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """A table of TOML, which has no null, with None for "none" in fields that may be unset; unknown keys stay."""
    values = dict(table)
    for key, value in table.items():
        annotation = hints(kind).get(key)
        inner = dataclass_in(annotation)
        if value == "none" and type(None) in typing.get_args(annotation):
            values[key] = None
        elif inner is not None and isinstance(value, Mapping):
            values[key] = with_unset(value, inner)
    return values


def read_options(table: Mapping[str, Any], kind: type[T], where: str) -> T:
    """A table of options as a dataclass; UserError that names `where` and the wrong key."""
    check_table(table, kind, where)
    return json_files.convert(table, kind, where)


def leaves(kind: type, prefix: str = "") -> dict[str, Any]:
    """Every settable path below a dataclass with its annotation, such as `optimizer.lr`."""
    paths: dict[str, Any] = {}
    for name, annotation in hints(kind).items():
        inner = dataclass_in(annotation)
        if inner is None:
            paths[prefix + name] = annotation
        else:
            paths |= leaves(inner, f"{prefix}{name}.")
    return paths
