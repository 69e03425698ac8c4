"""A field's type as JSON Schema: numbers with their bounds, choices, arrays, maps, nested dataclasses."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from llmperf.types.units import Minimum, Pattern


def class_description(kind: type) -> str:
    """The class docstring on one line."""
    return _one_line(inspect.getdoc(kind) or "")


def field_descriptions(kind: type) -> dict[str, str]:
    """Field name to the string literal below the field in the source; also of attributes that `__init__` sets.

    Fields of a class that it derives from come first.
    """
    described = {}
    for base in kind.__bases__:
        if dataclasses.is_dataclass(base):
            described |= field_descriptions(base)
    body = _classes(kind.__module__)[kind.__name__].body
    made = next((node.body for node in body if isinstance(node, ast.FunctionDef) and node.name == "__init__"), [])
    for field, after in [*pairwise(body), *pairwise(made)]:
        targets = field.targets if isinstance(field, ast.Assign) else [getattr(field, "target", None)]
        name = getattr(targets[0], "id", getattr(targets[0], "attr", None))
        if name is not None and (text := _string(after)) is not None:
            described[name] = _one_line(text)
    return described


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def _string(node: ast.stmt) -> str | None:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return node.value.value
    return None


def _one_line(text: str) -> str:
    """On one line, with JSON's word for what Python calls None."""
    return re.sub(r"\bNone\b", "null", " ".join(text.split()))


LARGEST_INTEGER = 2**53 - 1
"""Largest integer that every JSON reader keeps exactly (RFC 8259, section 6)."""

Schema = dict[str, Any]
_SCALARS = {str: "string", bool: "boolean", int: "integer", float: "number"}
_BOUNDS = {Minimum: "minimum", Pattern: "pattern"}


class Definitions:
    """The `$defs` of one schema; grows with each dataclass that is met."""

    def __init__(self) -> None:
        self.schemas: dict[str, Schema] = {}

    def reference(self, kind: type) -> Schema:
        """A `$ref` to a dataclass."""
        if kind.__name__ not in self.schemas:
            self.schemas[kind.__name__] = {}
            self.schemas[kind.__name__] = self.object(kind)
        return {"$ref": f"#/$defs/{kind.__name__}"}

    def object(self, kind: type) -> Schema:
        """A dataclass as an object that admits no other keys."""
        hints = get_type_hints(kind, include_extras=True)
        described = field_descriptions(kind)
        members: tuple[Field[Any], ...] = fields(kind)
        return {
            "title": kind.__name__,
            "description": class_description(kind),
            "type": "object",
            "properties": {
                field.name: {
                    **({"description": described[field.name]} if field.name in described else {}),
                    **self.of(hints[field.name]),
                    **({"default": field.default} if isinstance(field.default, (str, bool, int, float)) else {}),
                }
                for field in members
            },
            "required": [
                field.name for field in members if field.default is MISSING and field.default_factory is MISSING
            ],
            "additionalProperties": False,
        }

    def of(self, hint: Any) -> Schema:
        """Any annotation that the contract types use; TypeError for one that they do not."""
        origin, arguments = get_origin(hint), get_args(hint)
        if hint is Any:
            return {}
        if hint in _SCALARS:
            whole = {"minimum": -LARGEST_INTEGER, "maximum": LARGEST_INTEGER} if hint is int else {}
            return {"type": _SCALARS[hint], **whole}
        if is_dataclass(hint) and isinstance(hint, type):
            return self.reference(hint)
        if origin is Annotated:
            bounds = {_BOUNDS[type(marker)]: marker.value for marker in arguments[1:] if type(marker) in _BOUNDS}
            return {**self.of(arguments[0]), **bounds}
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin is tuple:
            return {"type": "array", "items": self.of(arguments[0])}
        if origin is Mapping or (isinstance(origin, type) and issubclass(origin, Mapping)):
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        if origin in (Union, types.UnionType):
            nullable = type(None) in arguments
            parts = [self.of(one) for one in arguments if one is not type(None)]
            if len(parts) > 1:
                kinds = [str(part["type"]) for part in parts]
                # every integer is a number
                kinds = [kind for kind in kinds if not (kind == "integer" and "number" in kinds)]
                return {"type": [*kinds, "null"] if nullable else kinds}
            (part,) = parts
            if not nullable:
                return part
            if "enum" in part:
                return {"enum": [*part["enum"], None]}
            if "type" in part:
                return {**part, "type": [part["type"], "null"]}
            return {"anyOf": [part, {"type": "null"}]}
        raise TypeError(f"no schema for {hint!r}")
