"""The hooks of this package: kinds of document with published rows, and the rules over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import llmperf

if TYPE_CHECKING:
    from pathlib import Path

    from llmperf.types import DocumentKind, Rule

KINDS = ("published", "readme")


@llmperf.hookimpl
def llmperf_rules(kind: str | None) -> Iterable[Rule]:
    """The rules over published documents."""
    if kind not in (None, *KINDS):
        return []
    from llmperf.validation import rules_in

    from llmperf_published.rules import devices, figures, identity, layout, mfu

    return rules_in(devices, figures, identity, layout, mfu)


@llmperf.hookimpl
def llmperf_document_kinds() -> Iterable[DocumentKind]:
    """The document that `llmperf import` writes, and the Markdown that it reads."""
    from pathlib import Path

    from llmperf.types import DocumentKind

    shared: dict[str, Any] = {
        "plugins": _late("rules.imported", "plugins"),
        "fingerprints": _late("rules.imported", "fingerprints"),
        "verdicts": _late("rules.verdicts", "verdicts"),
        "closing": _late("rules.verdicts", "closing"),
    }
    return [
        DocumentKind(
            name="published",
            title="an imported document",
            suffixes=(".json",),
            recognise=_is_imported,
            schema=_schema,
            type=_published,
            sheets=_late("reporting.sheets", "published_sheets"),
            baselines=_late("baselines", "published_baselines"),
            shipped=Path(__file__).parent / "data",
            summary=_late("reporting.summary", "summary"),
            **shared,
        ),
        DocumentKind(
            name="readme",
            title="a table of results (throughput, memory, ...)",
            suffixes=(".md", ".markdown", ".txt"),
            recognise=_is_markdown,
            read=_late("rules.imported", "read_readme"),
            line_of=_late("rules.imported", "line_of"),
            **shared,
        ),
    ]


def _late(module: str, function: str) -> Callable[..., Any]:
    """A function of this package whose module is imported when it is first called."""

    def call(*values: Any) -> Any:
        from importlib import import_module

        return getattr(import_module(f"llmperf_published.{module}"), function)(*values)

    return call


def _published() -> type:
    from llmperf_published.types.document import Published

    return Published


def _is_imported(_: Path, beginning: Callable[[], str], __: bool) -> bool:
    text = beginning()
    return '"llmperf/published/' in text and '"schema"' in text and '"$schema"' not in text


@cache
def _schema() -> Mapping[str, Any]:
    import llmperf_schemas

    return llmperf_schemas.load("published")


def _is_markdown(path: Path, _: Callable[[], str], named: bool) -> bool:
    """Any such file that the user named; in a folder, Markdown with figures in a table."""
    from llmperf_published.reading.files import has_results

    return named or (path.suffix != ".txt" and has_results(path))
