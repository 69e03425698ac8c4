"""The format `html` of `llmperf report`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import Reporter, Sheet


class HtmlReporter:
    """`llmperf report --format html`: one file that opens in a browser without a network."""

    name = "html"

    def render(self, sheets: Sequence[Sheet], language: str) -> str:
        """The page."""
        from llmperf_html.page import html

        return html(sheets, language)


@hookimpl
def llmperf_reporters() -> Iterable[Reporter]:
    """Reports as one HTML file."""
    return [HtmlReporter()]
