"""The pages of a site: leaderboards by model, device, vendor and framework, changes, and one page for each run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llmperf.reporting import PERCENT, STEP_SECONDS, UNKNOWN, finding_text, rounded, shown, value_text
from llmperf.types import Rounding, Section
from llmperf_compare.ranking import Entry, Standing

from llmperf_html.bars import (
    HOW_TO_READ,
    LOOKS,
    RANKS,
    VERDICT_LEGEND,
    Links,
    signature_text,
    standing_html,
    standings_html,
)
from llmperf_html.document import WORDS
from llmperf_html.run import curve_data, first_of_each_key, is_folded, key_figures
from llmperf_html.run_curves import curves_of
from llmperf_html.site.content import Content, SiteRun, slug
from llmperf_html.site.page import Child, Frame, Html, element, joined, table

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


KINDS = {"devices": "device", "vendors": "vendor", "frameworks": "framework"}
"""Folders of the pages that runs can be looked up by, and what they are of."""
KEYS = {"device": "device_model", "vendor": "vendor", "framework": "framework"}
"""Values of a run that name its device, vendor and framework."""
COMPARABLE = "The figures of one table have one contract and can be compared. Tables differ in what was measured."
BARS = (
    "Bars of MFU go from 0 to 100 %, others to the largest value of their contract. A line over a bar is the range of"
    " its repeats; hatched bars are imported or estimated, which llmperf did not measure."
)


def pages(frame: Frame, content: Content) -> Iterator[tuple[str, str]]:
    """Every page with its address."""
    yield "index.html", _index(frame, content)
    for model, standings in content.by_model.items():
        address = model_address(model)
        boards = [leaderboard(frame, content, standing, None, 2) for standing in standings]
        yield address, frame.page(address, model, _explained(frame), boards)
    for kind, what in KINDS.items():
        yield from _grouped(frame, content, kind, what)
    for kind, what in KINDS.items():
        yield f"{kind}.html", _names(frame, content, kind, what)
    yield "changes.html", _changes(frame, content)
    for run in content.runs:
        yield run.address, run_page(frame, content, run)


def model_address(model: str) -> str:
    """Address of the page of a model."""
    return f"models/{slug(model)}.html"


def _index(frame: Frame, content: Content) -> str:
    devices = len(content.by(KEYS["device"]))
    counted = frame.word("Results: {runs}; models: {models}; devices: {devices}",
                         runs=len(content.runs), models=len(content.by_model), devices=devices)  # fmt: skip
    body: list[Child] = [element("p", counted), _explained(frame)]
    body.append(
        element("p", joined([element("a", model, href=model_address(model)) for model in content.by_model], " · "))
    )
    links = _links_of(content, "")
    body = [element("div", class_="tools", id="choices"), element("div", id="chart"), *body]
    body += [element("h2", frame.word("Results")), Html(standings_html(content.standings, links, frame.language))]
    return frame.page("index.html", frame.title, body)


def _explained(frame: Frame) -> Html:
    looks = " ".join(map(frame.word, (BARS, LOOKS, RANKS)))
    lines: list[Child] = [frame.word(COMPARABLE), element("br"), looks, element("br"), frame.word(VERDICT_LEGEND)]
    return element("details", [element("summary", frame.word(HOW_TO_READ)), element("p", lines, class_="note")],
                   class_="fold")  # fmt: skip


def _links_of(content: Content, up: str) -> Links:
    """Entries lead to the pages of their runs; `up` leads from the page to the top of the site."""
    return Links(entry=lambda entry: up + content.run_of(entry.sheets[0]).address, comparison=lambda standing: "")


def leaderboard(
    frame: Frame, content: Content, standing: Standing, chosen: Sequence[tuple[int, Entry]] | None, level: int
) -> Html:
    """The table of a contract on a page in a folder of the site: all entries, or `chosen` with their ranks."""
    differing, place = content.differing[standing.model], content.standings.index(standing)
    return Html(standing_html(standing, place, differing, _links_of(content, "../"), frame.language, chosen, level))


def _grouped(frame: Frame, content: Content, kind: str, what: str) -> Iterator[tuple[str, str]]:
    """A page for each device, vendor or framework: its entries, with their ranks among all."""
    for name in content.by(KEYS[what]):
        address = f"{kind}/{slug(name)}.html"
        boards: list[Html] = []
        for standing in content.standings:
            own = [
                (rank, entry) for rank, entry in enumerate(standing.entries, start=1)
                if content.run_of(entry.sheets[0]).text(KEYS[what]) == name
            ]  # fmt: skip
            if own:
                boards.append(leaderboard(frame, content, standing, own, 2))
        yield address, frame.page(address, name, _explained(frame), boards)


def _names(frame: Frame, content: Content, kind: str, what: str) -> str:
    """A list of all devices, vendors or frameworks, with links to their pages; of devices also their vendors."""
    rows: list[list[Child]] = []
    headers = [frame.word(what), *([frame.word("vendor")] if what == "device" else []), frame.word("results")]
    for name, runs in content.by(KEYS[what]).items():
        row: list[Child] = [element("a", name, href=f"{kind}/{slug(name)}.html")]
        if what == "device":
            vendor = next((vendor for run in runs if (vendor := run.text("vendor")) is not None), None)
            row.append("-" if vendor is None else element("a", vendor, href=f"vendors/{slug(vendor)}.html"))
        rows.append([*row, str(len(runs))])
    heading = frame.word(kind.title())
    return frame.page(f"{kind}.html", heading, table(heading, [*headers], rows, frozenset({len(headers) - 1})))


def _changes(frame: Frame, content: Content) -> str:
    body: list[Child] = []
    for day, runs in content.by_day():
        items = [
            element("li", element("a", frame.word(run.sheet.title), href=run.address), Html(", "), run.sheet.name)
            for run in runs
        ]
        body += [element("h2", day or frame.word("no date")), element("ul", items)]
    return frame.page("changes.html", frame.word("Changes"), body)


def run_page(frame: Frame, content: Content, run: SiteRun) -> str:
    """The page of one run: where it stands, findings, then everything that is known of it."""
    sheet = run.sheet
    body: list[Child] = [element("p", sheet.name, class_="note")]
    if not sheet.measured:
        imported = frame.word("This row was imported from a document. llmperf did not measure it.")
        body.append(element("p", imported, class_="note"))
    if signature := signature_text(sheet, frame.language):
        body.append(element("p", signature, class_="note"))
    body.append(element("dl", _links(frame, run)))
    figures = [element("div", element("dt", title), element("dd", text))
               for title, text in key_figures(sheet, frame.language)]  # fmt: skip
    if figures:
        body.append(element("dl", figures, class_="figures"))
    body += [element("h2", frame.word("Findings")), _findings(frame, run)]
    sections = list(first_of_each_key(sheet.sections()))
    failures = [section for section in sections if section.key == "failure"]
    body += [_titled(frame, section, 2) for section in failures]
    known, drawn = curves_of(sheet), None
    if known is not None:
        curves = curve_data(known, frame.language)
        drawn = {"run": {"curves": curves}}
        body += [charts(frame), time_parts(frame, run, curves), estimate(frame, run, curves)]
    for standing in content.standings:
        own = [
            (rank, entry) for rank, entry in enumerate(standing.entries, start=1)
            if any(other is sheet for other in entry.sheets)
        ]  # fmt: skip
        if own:
            place, entry = own[0][0] - 1, own[0][1]
            near = range(max(0, place - 2), min(len(standing.entries), place + 3))
            shown_entries = [(index + 1, standing.entries[index]) for index in near]
            body.append(element("h2", frame.word("Same contract")))
            body.append(leaderboard(frame, content, standing, shown_entries, 3))
            if len(entry.sheets) > 1:
                others = [content.run_of(other) for other in entry.sheets if other is not sheet]
                links = [element("a", other.sheet.name, href=f"../{other.address}") for other in others]
                body.append(element("h3", frame.word("Repeats")))
                body.append(element("ul", [element("li", link) for link in links]))
            break
    open_sections = [section for section in sections if not is_folded(section) and section not in failures]
    body += [_titled(frame, section, 2) for section in open_sections]
    folded = [_titled(frame, section, section.level + 1) for section in sections if is_folded(section)]
    if folded:
        summary = element("summary", element("h2", frame.word(WORDS["environment"])))
        body.append(element("details", summary, folded, class_="section"))
    return frame.page(run.address, frame.word(sheet.title), body, data=drawn)


def _links(frame: Frame, run: SiteRun) -> Iterator[Html]:
    """Links by which a run can be looked up."""
    model = shown(run.sheet.cell("model"))
    named = [("Model", model, model_address(model))]
    named += [(what.title(), name, f"{kind}/{slug(name)}.html")
              for kind, what in KINDS.items() if (name := run.text(KEYS[what])) is not None]  # fmt: skip
    for label, name, address in named:
        link = element("a", name, href=f"../{address}")
        yield element("div", element("dt", frame.word(label)), element("dd", link))


def _findings(frame: Frame, run: SiteRun) -> Html:
    if not run.sheet.findings:
        return element("p", frame.word("No findings."))
    findings = sorted(run.sheet.findings, key=lambda finding: {"error": 0, "warning": 1}.get(finding.severity, 2))
    return element("ul", [element("li", finding_text(each, frame.language), class_=each.severity) for each in findings])


def _titled(frame: Frame, section: Section, level: int) -> Iterator[Html]:
    """A section below a heading: rows as a table of names and values, records as a table, and lines of a log."""
    title = frame.word(section.title)
    yield element(f"h{level}", title)
    rows: list[list[Child]] = [
        [frame.word(row.label) if row.label else "", value_text(row, frame.language)] for row in section.rows
    ]
    if rows and all(not row[0] for row in rows):
        yield element("ul", [element("li", row[1]) for row in rows])
    elif rows:
        yield table(title, [frame.word("name"), frame.word("value")], rows, titled=False)
    if section.records:
        headers: list[Child] = [frame.word(row.label) for row in section.records[0]]
        records: list[list[Child]] = [[value_text(row, frame.language) for row in record] for record in section.records]
        yield table(title, headers, records, titled=False)
    if section.lines:
        yield element("pre", joined(section.lines, "\n"), tabindex=0)
