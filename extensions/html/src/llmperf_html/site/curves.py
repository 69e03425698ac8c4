"""The curves of a run on its page: charts that the shared script draws, where its time went, its estimate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llmperf.reporting import PERCENT, STEP_SECONDS, UNKNOWN, rounded
from llmperf.types import Rounding

from llmperf_html.site.content import SiteRun
from llmperf_html.site.markup import Child, Html, element
from llmperf_html.site.page import Frame, table
from llmperf_html.words import WORDS

COLOURS = 8
"""Colours of parts, `c0` and following."""
ESTIMATED = (
    ("step_seconds", "step_seconds_median", "step_median", STEP_SECONDS),
    ("rank_peak_bytes", "rank_peak_bytes", "peak_of_rank", Rounding(style="decimals", digits=2, divisor=2**30)),
)
"""Key of the estimate, key of the measured figure, label in `WORDS`, rounding."""


def charts(frame: Frame) -> Iterator[Html]:
    """The place of the charts of a run; its curves are in the data of the page."""
    yield element("h2", frame.word("Curves"))
    yield element("noscript", element("p", frame.word("The curves need JavaScript."), class_="note"))
    yield element("div", id="charts")


def time_parts(frame: Frame, run: SiteRun, curves: Mapping[str, Any]) -> Iterator[Html]:
    """Seconds by phase, waiting for communication, and the operations of a traced step; nothing without phases."""
    if not any(seconds > 0 for _, seconds in curves["phases"]):
        return
    yield element("h2", frame.word(WORDS["where_time_went"]))
    yield from _stacked(frame, curves["phases"], "phase", Rounding(style="decimals", digits=2))
    waiting = run.values.get("communication_share")
    if isinstance(waiting, float | int):
        yield element("p", frame.word(WORDS["waiting"], share=rounded(waiting, PERCENT)))
    else:
        yield element("p", frame.word(WORDS["waiting_unknown"]))
    if any(seconds > 0 for _, seconds in curves["traced"]):
        yield element("h3", frame.word(WORDS["traced_step"]))
        yield from _stacked(frame, curves["traced"], "kind_of_operation", Rounding(style="decimals", digits=4))


def estimate(frame: Frame, run: SiteRun, curves: Mapping[str, Any]) -> Iterator[Html]:
    """Estimate before the run, measured time, and their ratio."""
    rows: list[list[Child]] = []
    for key, measured_key, label, rounding in ESTIMATED:
        expected, measured = curves["expected"].get(key), run.values.get(measured_key)
        if expected is None:
            continue
        known = measured if isinstance(measured, float | int) else None
        ratio = UNKNOWN if not expected or known is None else f"{known / expected:,.2f}"
        rows.append([frame.word(WORDS[label]), rounded(expected, rounding), rounded(known, rounding), ratio])
    title = frame.word(WORDS["estimate"])
    yield element("h2", title)
    if not rows:
        yield element("p", frame.word(WORDS["no_estimate"]))
        return
    names = ("figure", "estimated", "measured", "measured_to_estimated")
    headers: list[Child] = [frame.word(WORDS[name]) for name in names]
    yield table(title, headers, rows, frozenset({1, 2, 3}), titled=False)
    basis = f" ({curves['expected_basis']})" if curves["expected_basis"] else ""
    yield element("p", frame.word(WORDS["estimate_basis"]) + basis, class_="note")


def _stacked(frame: Frame, parts: Sequence[tuple[str, float]], heading: str, rounding: Rounding) -> Iterator[Html]:
    """Seconds by name as a stacked bar and as a table, which says the same."""
    whole, positive = sum(seconds for _, seconds in parts), sum(max(0.0, seconds) for _, seconds in parts)
    rows: list[list[Child]] = []
    blocks: list[Html] = []
    left = 0.0
    for place, (name, seconds) in enumerate(parts):
        colour, width = f"c{place % COLOURS}", 100 * max(0.0, seconds) / positive
        blocks.append(element("rect", x=f"{left:.2f}%", width=f"{width:.2f}%", height="100%", class_=colour))
        left += width
        label = frame.word(WORDS.get(name.replace(" ", "_"), name))
        share = rounded(seconds / whole, PERCENT) if whole > 0 else UNKNOWN
        swatch = element("span", class_=f"swatch solid {colour}")
        rows.append([[swatch, label], rounded(seconds, rounding), share])
    yield element("svg", blocks, class_="stack", aria_hidden="true")
    title = frame.word(WORDS[heading])
    headers: list[Child] = [title, frame.word(WORDS["seconds"]), frame.word(WORDS["share"])]
    yield table(title, headers, rows, frozenset({1, 2}), titled=False)
