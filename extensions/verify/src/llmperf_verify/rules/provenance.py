"""Where a plan and a result come from: their plugins, what was loaded beside them, and texts that control a screen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from llmperf import builtins, encode_pretty
from llmperf.types import Result, Text, Violation
from llmperf.validation import pointer, rule, shown

if TYPE_CHECKING:
    from llmperf.types import Plan

_PLUGIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@rule("LP652", "error", "The core, the vendor and the framework of a run are recorded", "result", "plan")
def plugins_are_recorded(document: Result | Plan) -> Iterator[Violation]:
    if isinstance(document, Result):
        vendor, framework = document.hardware.vendor, document.tuning.framework
    else:
        vendor, framework = document.vendor, document.spec.tuning.framework
    recorded = {(plugin.role, plugin.name) for plugin in document.plugins}
    for role, name in (("core", "core"), ("vendor", vendor), ("framework", framework)):
        if (role, name) not in recorded:
            same = [plugin.name for plugin in document.plugins if plugin.role == role]
            found = ", ".join(map(shown, same[:5])) or Text("none")
            yield "/plugins", Text("expected {} {}, found {} in this role", role, shown(name), found)
    for index, plugin in enumerate(document.plugins):
        if not _PLUGIN_NAME.fullmatch(plugin.name):
            yield f"/plugins/{index}/name", Text("expected the name of a plugin, found {}", shown(plugin.name))


LOADING = ("LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "PYTHONPATH", "PYTHONHOME")
"""Variables that put code into every process which inherits them."""
WHY = Text("the run's clocks and figures may not be those of the named packages")


@rule("LP655", "warning", "Nothing was loaded into the ranks from outside")
def nothing_loaded_from_outside(result: Result) -> Iterator[Violation]:
    software = result.software
    for name in LOADING:
        if text := software.environment.get(name):
            yield pointer(("software", "environment", name)), _variable(name, text)
    for name, file in software.startup_modules.items():
        yield pointer(("software", "startup_modules", name)), _module(file)
    for index, node in enumerate(result.nodes):
        for field, value in node.differs.items():
            kind, _, name = field.partition(".")
            where = pointer(("nodes", index, "differs", field))
            if value and kind == "environment" and name in LOADING:
                yield where, _variable(name, str(value))
            elif value and kind == "startup_modules":
                yield where, _module(str(value))


def _variable(name: str, text: str) -> str:
    return Text("expected {} to be unset, found {}: {}", name, shown(text), WHY)


def _module(file: str) -> str:
    return Text("expected no module that the interpreter imports by itself, found {}: {}", shown(file), WHY)


CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""All but tabs and ends of lines."""
ENCODED = re.compile(rb"\\u00[0-9]|\\[bf]")
"""The same in JSON, and little else."""
FREE = (("failure",), ("worker", "files"))
"""Output of programs, and files that a rank reads: they are what they are."""


@rule("LP668", "error", "Texts have no control characters", "result", "plan")
def no_control_characters(document: Result | Plan) -> Iterator[Violation]:
    """No text but the log of a failed run may control a terminal; only the first one is reported."""
    if ENCODED.search(encode_pretty(document)) is None:
        return
    for parts, text in _texts(builtins(document), ()):
        if CONTROL.search(text) is not None and not any(parts[: len(free)] == free for free in FREE):
            yield pointer(parts), Text("expected a text without control characters, found {}", shown(text))
            return


def _texts(value: Any, parts: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Every text of a document, also the keys of objects, with its place."""
    if isinstance(value, str):
        yield parts, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield (*parts, key[:200]), key
            yield from _texts(inner, (*parts, key[:200]))
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from _texts(inner, (*parts, index))
