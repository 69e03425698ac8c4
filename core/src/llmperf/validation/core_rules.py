"""The core's own rules and kinds of document, except results, which `llmperf.reporting.core_formats` has."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING

from llmperf.hookspecs import hookimpl

if TYPE_CHECKING:
    from llmperf.types import DocumentKind, Rule

RULES = ("conditions", "identity", "parallelism", "throughput", "utilisation", "while_reading")
"""Modules of `llmperf.validation.rules`."""


@hookimpl
def llmperf_rules(kind: str | None) -> Iterable[Rule]:
    """The rules over results and plans, and those that are applied while files are read."""
    if kind not in (None, "result", "plan"):
        return []
    from llmperf.validation.violations import rules_in

    return rules_in(*(import_module(f"llmperf.validation.rules.{name}") for name in RULES))


@hookimpl
def llmperf_document_kinds() -> Iterable[DocumentKind]:
    """Plans, records, cases and models."""
    from llmperf.validation.core_kinds import kinds

    return kinds()
