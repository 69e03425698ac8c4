"""A leaderboard: the entries of one contract in a table, with bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite

from llmperf.reporting import UNKNOWN, rounded, shown
from llmperf.types import Sheet
from llmperf_compare.ranking import Entry, Standing

from llmperf_html.bars import BEYOND, METRICS, VERDICT_LEGEND, Metric, changes_text, largest, sharing_text, verdict_text
from llmperf_html.site.content import Content
from llmperf_html.site.markup import Child, Html, breakable, element
from llmperf_html.site.page import HATCHES, Frame, table


def leaderboard(
    frame: Frame, content: Content, standing: Standing, up: str, entries: Sequence[tuple[int, Entry]] | None = None
) -> Html:
    """A table of entries with their ranks; all of the standing, unless `entries` names some.

    `up` leads from the page to the top of the site.
    """
    chosen = list(enumerate(standing.entries, start=1)) if entries is None else list(entries)
    columns = _columns(frame, standing, [entry for _, entry in chosen])
    rows: list[list[Child]] = []
    for rank, entry in chosen:
        first = content.run_of(entry.sheets[0])
        number = str(rank) if isfinite(entry.speed) else UNKNOWN
        rows.append([
            element("a", entry.device, href=up + first.address), number,
            *(cell(entry) for _, cell, _ in columns), _verdict(frame, entry),
        ])  # fmt: skip
    headers: list[Child] = [frame.word("device"), frame.word("place"),
                            *(frame.word(title) for title, _, _ in columns), frame.word("validation")]  # fmt: skip
    numbers = frozenset(place + 2 for place, (_, _, number) in enumerate(columns) if number)
    return table(content.heading(standing, frame), headers, rows, numbers | {1})


Cell = Callable[[Entry], Child]


def _columns(frame: Frame, standing: Standing, entries: Sequence[Entry]) -> list[tuple[str, Cell, bool]]:
    """Title, cell and whether it is a number, of each column that some entry has a value for."""

    longest = largest(standing.entries, METRICS)

    def figure(metric: Metric) -> Cell:
        return lambda entry: _figure(frame, entry, metric, longest)

    columns: list[tuple[str, Cell, bool]] = [
        (metric.title, figure(metric), False)
        for metric in METRICS if any(metric.key in entry.figures for entry in entries)
    ]  # fmt: skip
    columns.append(("framework", lambda entry: breakable(entry.framework), False))
    columns.append(("layout", lambda entry: frame.word(entry.layout), False))
    columns.append(("changes", lambda entry: breakable(changes_text(entry) or entry.changes), False))
    return columns


def _figure(frame: Frame, entry: Entry, metric: Metric, longest: Mapping[tuple[str, str], float]) -> Child:
    """A median with its bar, its interval over repeats, and how it was made, unless it was measured."""
    interval = entry.figures.get(metric.key)
    if interval is None:
        return UNKNOWN
    whole = longest[metric.key, interval.currency]

    def share(value: float) -> float:
        return min(100.0, 100 * value / whole) if whole else 0.0

    notes = [] if interval.how == "measured" else [frame.word(interval.how)]
    bars = [_part(0.0, share(interval.median), interval.how)]
    if interval.low is not None and interval.high is not None:
        low, high = (rounded(value, metric.rounding) for value in (interval.low, interval.high))
        notes.insert(0, frame.word("{low} to {high} in {runs} runs", low=low, high=high, runs=interval.runs))
        bars.append(_part(share(interval.low), share(interval.high), "interval"))
        bars += [_part(share(value), share(value), "end") for value in (interval.low, interval.high)]
    if sharing := sharing_text(entry, metric, frame.language):
        notes.append(sharing)
    if whole and interval.median > whole:
        notes.append(frame.word(BEYOND))
    text = f"{rounded(interval.median, metric.rounding)} {interval.currency}".strip()
    if interval.how == "printed":
        text = shown(entry.sheets[0].cell(metric.key))
    note = element("span", ", ".join(notes), class_="note") if notes else None
    return element("div", element("strong", text, class_="value"), Html(" "), note,
                   element("svg", bars, class_="track", aria_hidden="true"), class_="figure")  # fmt: skip


def _part(left: float, right: float, kind: str) -> Html:
    """Part of a bar, in percent. `HATCHES` has the fills of figures that were not measured."""
    fill = f"url(#{kind})" if kind in HATCHES else None
    return element("rect", x=f"{left:.2f}%", width=f"{max(0.0, right - left):.2f}%", class_=kind, fill=fill)


def _verdict(frame: Frame, entry: Entry) -> Child:
    """Verdict of validation, a mark for imported entries, and the level of verification."""
    levels = entry.levels or (frame.word("not rerun") if entry.measured else None)
    signatures = sorted({signature_text(frame, sheet) for sheet in entry.sheets} - {""})
    signed = [element("small", text) for text in signatures]
    imported = None if entry.measured else element("span", frame.word("imported"), class_="badge")
    return [
        element(
            "span",
            verdict_text(entry, frame.language),
            class_=f"verdict {entry.verdict}",
            title=None if entry.measured else frame.word(VERDICT_LEGEND),
        ),
        imported,
        None if levels is None else element("small", levels),
        *signed,
    ]


def signature_text(frame: Frame, sheet: Sheet) -> str:
    """Text on who signed a submission; empty for a sheet that did not come as one."""
    cell = sheet.cell("signature")
    if cell.value is not None:
        return frame.word("signed by {name}", name=str(cell.value))
    return frame.word(cell.text) if cell.text else ""
