"""Ways to change a rank's code or clocks from outside: preloaded libraries and modules imported at its start."""

from __future__ import annotations

from collections.abc import Iterator

from llmperf.types import Result, Text, Violation
from llmperf.validation.reading import pointer, shown
from llmperf.validation.violations import rule

LOADING = ("LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "PYTHONPATH", "PYTHONHOME")
"""Variables that put code into every process which inherits them."""
WHY = Text("the run's clocks and figures may not be those of the named packages")


@rule("LP655", "warning", "Nothing was loaded into the ranks from outside")
def nothing_loaded_from_outside(result: Result) -> Iterator[Violation]:
    """The loader and the interpreter load no code that the user's environment names, on no node."""
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
