"""Reports: sheets of labelled rows, and the formats that render them.

The names below are public: what a plugin needs for a kind of document or a report format of its own, beside the types
in `llmperf.types`. Each is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llmperf.reporting.cells import PERCENT as PERCENT
    from llmperf.reporting.cells import SIGNIFICANT as SIGNIFICANT
    from llmperf.reporting.cells import THROUGHPUT as THROUGHPUT
    from llmperf.reporting.cells import UNKNOWN as UNKNOWN
    from llmperf.reporting.cells import leaves as leaves
    from llmperf.reporting.cells import markdown_text as markdown_text
    from llmperf.reporting.cells import printable as printable
    from llmperf.reporting.cells import rounded as rounded
    from llmperf.reporting.cells import shown as shown
    from llmperf.reporting.comparison import COMPARED as COMPARED
    from llmperf.reporting.exports import sheet_values as sheet_values
    from llmperf.reporting.overview import model_text as model_text
    from llmperf.reporting.overview import ordered as ordered
    from llmperf.reporting.result_sheets import result_sheet as result_sheet
    from llmperf.reporting.terminal import closing_lines as closing_lines
    from llmperf.reporting.terminal import finding_text as finding_text
    from llmperf.reporting.words import word as word

_NAMES = {
    "cells": "PERCENT SIGNIFICANT THROUGHPUT UNKNOWN leaves markdown_text printable rounded shown",
    "comparison": "COMPARED",
    "exports": "sheet_values",
    "overview": "model_text ordered",
    "result_sheets": "result_sheet",
    "terminal": "closing_lines finding_text",
    "words": "word",
}
_HOMES = {name: f"llmperf.reporting.{home}" for home, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value
    raise AttributeError(f"module 'llmperf.reporting' has no attribute {name!r}")
