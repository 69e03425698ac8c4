"""The hooks of this package: kinds of document with published rows, and the rules over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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

    from llmperf.lazy import late
    from llmperf.types import DocumentKind
    from llmperf.validation import json_kind

    shared: dict[str, Any] = {
        "plugins": late("llmperf_published.rules.imported:plugins"),
        "fingerprints": late("llmperf_published.rules.imported:fingerprints"),
        "verdicts": late("llmperf_published.rules.verdicts:verdicts"),
        "closing": late("llmperf_published.rules.verdicts:closing"),
    }
    return [
        json_kind(
            "published",
            "an imported document",
            "llmperf_published.types.document:Published",
            sheets=late("llmperf_published.reporting.sheets:published_sheets"),
            baselines=late("llmperf_published.baselines:published_baselines"),
            shipped=Path(__file__).parent / "data",
            summary=late("llmperf_published.reporting.summary:summary"),
            **shared,
        ),
        DocumentKind(
            name="readme",
            title="a table of results (throughput, memory, ...)",
            suffixes=(".md", ".markdown", ".txt"),
            recognise=_is_markdown,
            read=late("llmperf_published.rules.imported:read_readme"),
            line_of=late("llmperf_published.rules.imported:line_of"),
            **shared,
        ),
    ]


def _is_markdown(path: Path, _: Callable[[], str], named: bool) -> bool:
    """Any such file that the user named; in a folder, Markdown with figures in a table."""
    from llmperf_published.reading.files import has_results

    return named or (path.suffix != ".txt" and has_results(path))
