"""What the source says of a dataclass and of each of its fields."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from functools import cache
from itertools import pairwise


def class_description(kind: type) -> str:
    """The class docstring on one line."""
    return _one_line(inspect.getdoc(kind) or "")


def field_descriptions(kind: type) -> dict[str, str]:
    """Field name to the string literal that stands below the field in the source."""
    body = _classes(kind.__module__)[kind.__name__].body
    described = {}
    for field, after in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = _string(after)
            if text is not None:
                described[field.target.id] = _one_line(text)
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
