"""Public names of packages that are imported when they are first used."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pkgutil import resolve_name
from typing import Any


def lazily(
    module: dict[str, Any], moved: Mapping[str, str] | None = None, *, keep: bool = True
) -> tuple[list[str], Callable[[str], Any]]:
    """`__all__` and `__getattr__` of a package: the names that it imports for type checkers.

    These stand in its source as `from MODULE import NAME as NAME`. With `keep`, a name is looked up in its module once.
    `moved` has replacements for names that the package once had.
    """
    with open(module["__file__"], encoding="utf-8") as source:
        found = re.findall(r"^    from (\S+) import \w+ as (\w+)$", source.read(), re.M)
    homes = {name: home for home, name in found}

    def get(name: str) -> Any:
        if name not in homes:
            from llmperf.errors import absent_name

            raise absent_name(module["__name__"], name, moved or {})
        value = getattr(import_module(homes[name]), name)
        if keep:
            module[name] = value
        return value

    return sorted(homes), get


def late(home: str) -> Callable[..., Any]:
    """The function at `MODULE:NAME`, which is imported when it is first called."""
    return lambda *values: resolve_name(home)(*values)
