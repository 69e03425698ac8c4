"""The charts of a run on its page: its curves as data, which the shared script draws."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llmperf.reporting import word

from llmperf_html.document import embedded
from llmperf_html.site.assets import SCRIPT
from llmperf_html.site.markup import Html, element
from llmperf_html.site.page import Frame
from llmperf_html.words import WORDS


def charts(frame: Frame, curves: Mapping[str, Any]) -> Iterator[Html]:
    """The charts of the curves of a run."""
    data = {
        "language": frame.language,
        "words": {name: word(english, frame.language) for name, english in WORDS.items()},
        "run": {"curves": curves},
    }
    yield element("h2", frame.word("Curves"))
    yield element("noscript", element("p", frame.word("The curves need JavaScript."), class_="note"))
    yield element("div", id="charts")
    yield element("script", Html(embedded(data)), type="application/json", id="data")
    yield element("script", src=f"../{SCRIPT}")
