"""The core's own report formats."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from llmperf.hookspecs import hookimpl

if TYPE_CHECKING:
    from llmperf.types import Reporter


@hookimpl
def llmperf_reporters() -> Iterable[Reporter]:
    """Terminal, Markdown, CSV and JSON."""
    from llmperf.reporting.exports import CsvReporter, JsonReporter
    from llmperf.reporting.markdown import MarkdownReporter
    from llmperf.reporting.terminal import TerminalReporter

    return [TerminalReporter(), MarkdownReporter(), CsvReporter(), JsonReporter()]
