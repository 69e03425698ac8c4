"""llmperf extension `flagperf`: the format `flagperf` of `llmperf report`, and the document of its result tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import DocumentKind, Reporter, Rule, Sheet


class FlagPerfReporter:
    """`llmperf report --format flagperf`: the performance table of a README of FlagPerf's `training`."""

    name = "flagperf"

    def render(self, sheets: Sequence[Sheet], language: str) -> str:
        """The tables; headings and columns are FlagPerf's, in Chinese, whatever the language."""
        from llmperf_flagperf.report import readme

        return readme(sheets)


@hookimpl
def llmperf_reporters() -> Iterable[Reporter]:
    """Reports as a README of FlagPerf."""
    return [FlagPerfReporter()]


@hookimpl
def llmperf_rules(kind: str | None) -> Iterable[Rule]:
    """The rules over imported result tables."""
    if kind not in (None, "flagperf_results"):
        return []
    from llmperf.validation import rules_in

    from llmperf_flagperf import rules

    return rules_in(rules)


@hookimpl
def llmperf_document_kinds() -> Iterable[DocumentKind]:
    """Result tables of FlagPerf's `base` and `operation`."""
    from importlib import import_module

    import msgspec
    from llmperf.types import DocumentKind

    def results() -> Any:
        return import_module("llmperf_flagperf.results").Results

    return [
        DocumentKind(
            name="flagperf_results",
            title="result tables of FlagPerf",
            suffixes=(".json",),
            recognise=lambda path, beginning, named: '"llmperf/flagperf_results/1"' in beginning(),
            schema=lambda: msgspec.json.schema(results()),
            type=results,
        )
    ]
