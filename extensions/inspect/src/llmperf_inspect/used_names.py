"""Names of llmperf that a plugin uses and that are gone, found without importing the plugin."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from llmperf.planning import Found, published

if TYPE_CHECKING:
    from pathlib import Path

MAX_FILES, MAX_BYTES = 300, 2**20
"""Files of a package that are read, and bytes of each."""
RENAMED = {"llmperf.vendorkit": "llmperf_vendorkit"}
"""Modules under their earlier names, which still work."""


def missing_name(found: Found) -> str | None:
    """One line on the first name that a plugin of other people uses and that is gone; None if all are there."""
    own = found.module.partition(".")[0]
    place = None if published().get((found.role, found.name)) == found.distribution else _place(own)
    for path in [] if place is None else sorted(place.rglob("*.py"))[:MAX_FILES] if place.is_dir() else [place]:
        tree = _parsed(path)
        for line, module, name in _used(tree, own) if tree is not None else ():
            if (problem := _problem(module, name)) is not None:
                return f"{found.role} {found.name!r} ({found.distribution}): {path.name}, line {line}: {problem}"
    return None


def _used(tree: ast.Module, own: str) -> Iterator[tuple[int, str, str]]:
    """Line, module and name of each use of llmperf; what a `try` guards or type checkers alone see is left out."""
    guarded = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.Try) or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
        for inner in ast.walk(node)
    }
    imports = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    for node in ast.walk(tree):
        if node in guarded:
            continue
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            top = node.module.partition(".")[0]
            if top != own and (top == "llmperf" or top.startswith("llmperf_")):
                yield from ((node.lineno, node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "llmperf" and "llmperf" in imports:
            yield node.lineno, "llmperf", node.attr


def _problem(module: str, name: str) -> str | None:
    """A problem of a name of a module; None if it is there, or if nothing is known of the module's package."""
    top, *rest = RENAMED.get(module, module).split(".")
    place = _place(top)
    if place is None or not place.is_dir() or name == "*" or name.startswith("__"):
        return None
    path = place.joinpath(*rest)
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not file.is_file():
        return None if path.is_dir() else f"there is no module {module}"
    if (path / name).is_dir() or (path / f"{name}.py").is_file() or name in (bound := _bound(file)):
        return None
    return f"{module}.{name} is now {bound['_MOVED'][name]}" if name in bound["_MOVED"] else f"{module} has no {name}"


@cache
def _bound(file: Path) -> dict[str, dict[str, str]]:
    """The names that a module binds, those for type checkers included, and its table `_MOVED`."""
    names: dict[str, dict[str, str]] = {"_MOVED": {}}
    tree = _parsed(file)
    statements: list[ast.AST] = list(tree.body) if tree is not None else []
    while statements:
        node = statements.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.setdefault(node.name, {})
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update({(alias.asname or alias.name.partition(".")[0]): {} for alias in node.names})
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.setdefault(node.id, {})
        else:
            statements += ast.iter_child_nodes(node)
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Dict):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if getattr(target, "id", "") == "_MOVED":
                names["_MOVED"] = ast.literal_eval(node.value)
    return names


def _parsed(file: Path) -> ast.Module | None:
    """The syntax tree; None for a file that is too long or is no Python."""
    try:
        return ast.parse(file.read_bytes()) if file.stat().st_size <= MAX_BYTES else None
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None


@cache
def _place(package: str) -> Path | None:
    """The folder of a top-level package, or the file of a top-level module; None if it is not installed."""
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.has_location or spec.origin is None:
        return None
    from pathlib import Path

    origin = Path(spec.origin)
    return origin.parent if origin.name == "__init__.py" else origin
