"""Hooks that a plugin answers and this core does not ask: misspelt, removed, newer, or about to go."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any

import pluggy

from llmperf.errors import unknown
from llmperf.hookspecs import OWNERS, PROJECT, REMOVED

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
