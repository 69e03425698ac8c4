"""The core's own report formats."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from llmperf.hookspecs import hookimpl

if TYPE_CHECKING:
    from llmperf.types import Reporter


@hookimpl
def llmperf_reporters() -> Iterable[Reporter]:
    """Terminal, Markdown, JSON and CSV."""
    from llmperf.reporting.formats import core_reporters

    return core_reporters()
