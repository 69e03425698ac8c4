"""Hooks that a plugin answers and this core does not ask: misspelt, removed, newer, or about to go."""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import pluggy

from llmperf.errors import unknown
from llmperf.hookspecs import OWNERS, PROJECT, REMOVED
from llmperf.plugins.discovery import Found
from llmperf.plugins.own_packages import of_this_project

if TYPE_CHECKING:
    from pathlib import Path

_announced: set[str] = set()
"""Lines that this process has printed."""


def unasked(who: str, plugin: object) -> str | None:
    """One line on the first hook of a plugin that the core never asks; None if there is none, or it is optional."""
    for name in dir(plugin):
        if not name.startswith("llmperf_") or name in OWNERS or not callable(function := getattr(plugin, name)):
            continue
        if getattr(function, f"{PROJECT}_impl", {}).get("optionalhook"):
            continue
        if name in REMOVED:
            return f"{who}: hook {name!r} was removed; use {REMOVED[name]}"
        from difflib import get_close_matches

        newer = f"; if a newer {PROJECT}-core has it, upgrade that, or mark the hook optionalhook=True"
        near = get_close_matches(name, OWNERS, n=1, cutoff=0.85)
        return f"{unknown(who, 'hook', name, OWNERS)}{'' if near else newer}"
    return None


@contextmanager
def announcing(who: str) -> Iterator[None]:
    """Print on standard error which hooks of a plugin will go, by the `warn_on_impl` of their specifications."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FutureWarning)
        yield
    for line in dict.fromkeys(f"{PROJECT}: {who}: {warning.message}" for warning in caught):
        if line not in _announced:
            _announced.add(line)
            print(line, file=sys.stderr)


class HookManager(pluggy.PluginManager):
    """Registers a module in a tenth of the time: pluggy searches the type of a plugin for each of its names."""

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> Any:
        """The options of a hook implementation; None for other attributes."""
        return super().parse_hookimpl_opts(plugin, name) if _may_be_hook(plugin, name) else None

    def parse_hookspec_opts(self, module_or_class: Any, name: str) -> Any:
        """The options of a hook specification; None for other attributes."""
        return super().parse_hookspec_opts(module_or_class, name) if _may_be_hook(module_or_class, name) else None


def _may_be_hook(plugin: object, name: str) -> bool:
    return (
        not isinstance(plugin, ModuleType) or name not in vars(plugin) or isinstance(vars(plugin)[name], FunctionType)
    )


MAX_FILES, MAX_BYTES = 300, 2**20
"""Files of a package that are read, and bytes of each."""
RENAMED = {"llmperf.vendorkit": "llmperf_vendorkit"}
"""Modules under their earlier names, which still work."""


def missing_name(found: Found) -> str | None:
    """One line on the first name that a plugin of other people uses and that is gone; None if all are there."""
    own = found.module.partition(".")[0]
    place = None if of_this_project(found) else _place(own)
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
