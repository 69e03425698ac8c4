"""llmperf extension `flagperf`: the format `flagperf` of `llmperf report`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import Reporter, Sheet


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
