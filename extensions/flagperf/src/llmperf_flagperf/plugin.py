"""llmperf extension `flagperf`: the format `flagperf` of `llmperf report`, and the document of its result tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

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
    from llmperf.lazy import late
    from llmperf.validation import json_kind

    home, title = "llmperf_flagperf.results", "result tables of FlagPerf"
    return [json_kind("flagperf_results", title, f"{home}:Results", sheets=late(f"{home}:sheets"))]
