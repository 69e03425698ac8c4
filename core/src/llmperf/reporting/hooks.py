"""The core's own report formats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from llmperf.hookspecs import hookimpl

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
    """Results, with their sheets."""
    from llmperf.validation.core_kinds import result_kind

    return [result_kind(_result_sheets)]


def _result_sheets(result: Result, path: Path, findings: Sequence[Finding]) -> Iterable[Sheet]:
    from llmperf.reporting.result_sheets import result_sheet

    return [result_sheet(result, path, findings)]
