"""Which keys a document may have: asked of the dataclass it becomes."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any

from llmperf.errors import UserError, unknown
from llmperf.types.units import Below, Minimum

LARGEST_INTEGER = 2**53 - 1
"""What every reader of JSON keeps exactly: a result with a larger one would be refused."""


@cache
def hints(kind: type) -> dict[str, Any]:
    """Resolved annotations of a dataclass, bounds included."""
    return typing.get_type_hints(kind, include_extras=True)


def bound(annotation: Any, kind: type[Minimum] | type[Below]) -> float | None:
    """The inclusive minimum, or what a number must stay below, that an annotation carries, if any."""
    for part in (annotation, *typing.get_args(annotation)):
        for mark in getattr(part, "__metadata__", ()):
            if isinstance(mark, kind):
                return mark.value
    return None


def check_bound(value: Any, annotation: Any, where: str) -> None:
    """UserError for a number out of the bounds of its field, one that is not finite, or an integer that JSON loses."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return
    if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        raise UserError(f"{where}: expected at most {LARGEST_INTEGER}, found {_shortened(value)}")
    if not math.isfinite(value):
        raise UserError(f"{where}: expected a finite number, found {value}")
    low, high = bound(annotation, Minimum), bound(annotation, Below)
    if (low is not None and value < low) or (high is not None and value >= high):
        below = "" if high is None else f" and below {high}"
        raise UserError(f"{where}: expected at least {low}{below}, found {value}")


def _shortened(value: int) -> str:
    return str(value) if abs(value) < 10**40 else "a longer one"


def dataclass_in(annotation: Any) -> type | None:
    """The dataclass that an annotation is, or is an optional one of."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        found = [dataclass_in(option) for option in typing.get_args(annotation)]
        return next((kind for kind in found if kind is not None), None)
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        return annotation
    return None


def check_table(table: Any, kind: type, where: str) -> None:
    """UserError for the first key, at any depth, that `kind` has no field for, or number below its bound."""
    if not isinstance(table, Mapping):
        raise UserError(f"{where}: expected a table, found {type(table).__name__} {table!r}")
    for key, value in table.items():
        if key not in hints(kind):
            raise unknown(where, "key", str(key), hints(kind))
        path = f"{where}.{key}" if ": " in where else f"{where}: {key}"
        inner = dataclass_in(hints(kind)[key])
        if inner is not None and isinstance(value, Mapping):
            check_table(value, inner, path)
        check_bound(value, hints(kind)[key], path)


def leaves(kind: type, prefix: str = "") -> dict[str, Any]:
    """Every settable path below a dataclass with its annotation, such as `optimizer.lr`."""
    found: dict[str, Any] = {}
    for name, annotation in hints(kind).items():
        inner = dataclass_in(annotation)
        if inner is None:
            found[prefix + name] = annotation
        else:
            found |= leaves(inner, f"{prefix}{name}.")
    return found
