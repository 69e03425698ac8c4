"""The core's own report formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from llmperf.hookspecs import hookimpl
from llmperf.runfolder import filenames

if TYPE_CHECKING:
    from llmperf.types import DocumentKind, Finding, Reporter, Result, Sheet


@hookimpl
def llmperf_reporters() -> Iterable[Reporter]:
    """Terminal, Markdown, CSV and JSON."""
    from llmperf.reporting.exports import CsvReporter, JsonReporter
    from llmperf.reporting.markdown import MarkdownReporter
    from llmperf.reporting.terminal import TerminalReporter

    return [TerminalReporter(), MarkdownReporter(), CsvReporter(), JsonReporter()]


@hookimpl
def llmperf_document_kinds() -> Iterable[DocumentKind]:
    """Results, with their sheets, and the reports that llmperf writes into run folders."""
    from llmperf.types import DocumentKind
    from llmperf.validation.core_kinds import result_kind

    report = DocumentKind(
        name="report", title="a report of llmperf", suffixes=(".md",), recognise=_is_report, silent=True
    )
    return [result_kind(_result_sheets), report]


def _is_report(path: Path, _: Callable[[], str], named: bool) -> bool:
    beside = (path.with_name(name) for name in (filenames.RESULT, filenames.PLAN))
    return not named and path.name == filenames.REPORT and any(file.is_file() for file in beside)


def _result_sheets(result: Result, path: Path, findings: Sequence[Finding]) -> Iterable[Sheet]:
    from llmperf.reporting.result_sheets import result_sheet

    return [result_sheet(result, path, findings)]
