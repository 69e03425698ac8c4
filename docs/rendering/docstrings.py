"""Docstrings of a dataclass and of each of its fields."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
from functools import cache
from itertools import pairwise


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
