"""The report, which needs no network: ranked bars for each contract, a table of runs, their curves and findings."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from html import escape
from itertools import count, permutations
from typing import Any
from urllib.parse import urlencode

from llmperf.reporting import closing_lines, money, ordered, printable, shown, word
from llmperf.types import Row, Sheet
from llmperf_compare.comparison import compare, speed_line
from llmperf_compare.ranking import Entry, Standing, standings

from llmperf_html.bars import HOW_TO_READ, LOOKS, RANKS, VERDICT_LEGEND, Links, arranged, standings_html
from llmperf_html.columns import COLUMNS, COMPARED_FIGURES, PageColumn
from llmperf_html.document import CHARTS, IN_USE_BY_ALL, LABELS, MEMORY, WORDS, document
from llmperf_html.run import PageRuns, disturbed_texts

SCRIPTS = (
    *(CHARTS, "dom.js", "bars.js", "table.js", "plot.js", "charts.js", "overview.js", "run.js", "compare.js"),
    "page.js",
)
CURVE_BYTES = 24 * 2**20
"""Limit for the curves of all runs together: runs beyond it have none, and the page says so."""
MAX_PAIRS = 100
"""Pairs of kinds whose ratio has an interval; it takes about 20 ms to compute one."""
MAX_SIDES = 8
"""Sides of one comparison: more curves cannot be told apart by their colours."""


def html(sheets: Sequence[Sheet], language: str) -> str:
    """The report."""
    sheets = ordered(sheets)
    found = arranged(standings(sheets))
    data = page_data(sheets, found, language)
    places = {id(sheet): place for place, sheet in enumerate(sheets)}
    keys = {id(sheet): run["key"] for sheet, run in zip(sheets, data["runs"], strict=True)}

    def comparison(standing: Standing) -> str:
        repeated = [
            (entry, keys[id(min(entry.sheets, key=lambda sheet: places[id(sheet)]))])
            for entry in standing.entries[:MAX_SIDES]
        ]
        sides = [("side", f"all:{key}" if len(entry.sheets) > 1 else key) for entry, key in repeated]
        return "#" + urlencode(sides) if len(sides) > 1 else ""

    links = Links(entry=lambda entry: "#" + urlencode({"run": keys[id(entry.sheets[0])]}), comparison=comparison)
    bars = standings_html(found, links, language)
    body = _body(bars, data, sheets, language)
    return document(title=data["title"], language=language, body=body, data=data, scripts=SCRIPTS)


def _body(bars: str, data: Mapping[str, Any], sheets: Sequence[Sheet], language: str) -> str:
    def text(english: str) -> str:
        return escape(word(english, language))

    ranked = "Ranked by the figure with the arrow: choose another by its heading."
    legend = (
        "A line over a bar is the range of its repeats, or of what an estimate expects;"
        " hatched bars are imported or estimated."
    )
    imported = any(sheet.cell("provenance").value == "imported" for sheet in sheets)
    script = "The table and the curves need JavaScript; llmperf report --format markdown does not."
    verdicts = f'<p id="verdicts">{escape(data["verdicts"])}</p>' if data["verdicts"] else ""
    currencies = ""
    if len(data["currencies"]) > 1:
        note = word("Costs are in several currencies ({currencies}): they are ranked within each of them.", language)
        currencies = f'<p class="note">{escape(note.format(currencies=", ".join(data["currencies"])))}</p>'
    answer, *rest = dict.fromkeys(line for sheet in sheets for line in sheet.foreword) or [""]
    foreword = f'<p class="answer">{escape(answer)}</p>' if answer else ""
    foreword += f'<p class="note">{"<br>".join(map(escape, rest))}</p>' if rest else ""
    notes = " ".join(map(text, (ranked, legend, LOOKS, RANKS, *[VERDICT_LEGEND] * imported)))
    return f"""<a id="skip" href="#table">{text(WORDS["skip"])}</a>
<header><h1>{text("llmperf report")}</h1><p><span id="summary">{escape(data["summary"])}</span>
<time id="made" datetime="{data["made_iso"]}">{escape(data["made"])}</time></p></header>
<noscript><p>{text(script)}</p></noscript>
<main>
<section id="overview" aria-label="{text("Results")}">
<div id="answer"><h2>{text("Results")}</h2>
{foreword}{verdicts}
<div class="tools" id="choices"></div><div id="chart"></div>
<details class="fold"><summary>{text(HOW_TO_READ)}</summary><p class="note">{notes}</p></details>
{bars}</div>
<section id="runs"><h2>{text(WORDS["overview"])}</h2>
{currencies}<div id="table"></div></section>
</section>
<section id="detail" tabindex="-1" hidden></section>
</main>"""


def page_data(sheets: Sequence[Sheet], found: Sequence[Standing], language: str) -> dict[str, Any]:
    """Data of the page's scripts, as plain JSON. `sheets` are in the order of the table."""
    left, runs, page, times = CURVE_BYTES, [], PageRuns(language), Counter[str]()
    taken = {printable(sheet.name) for sheet in sheets}
    for sheet in sheets:
        run = page.run(sheet, left > 0)
        left -= len(json.dumps(run["curves"]))
        name = printable(sheet.name)
        times[name] += 1
        key = name
        if times[name] > 1:  # a run may be named like the second one of another name
            key = next(key for number in count(times[name]) if (key := f"{name}~{number}") not in taken)
            taken.add(key)
        runs.append({"key": key, **run})
    places = {id(sheet): place for place, sheet in enumerate(sheets)}
    entries = [entry for standing in found for entry in standing.entries]
    groups = [entry for entry in entries if len(entry.sheets) > 1]
    figures = [figure for entry in entries for figure in entry.figures.values()]
    for number, entry in enumerate(groups):
        for sheet in entry.sheets:
            runs[places[id(sheet)]]["group"] = number
    if _are_estimates(sheets):
        counted = "{all} estimate" if len(runs) == 1 else "{all} estimates"
    else:
        counted = "{all} run" if len(runs) == 1 else "{all} runs"
    summary = word(counted, language).format(all=len(runs))
    single = sheets[0] if len(sheets) == 1 else None
    subject = f"{printable(shown(single.cell('model')))}, {printable(single.name)}" if single else summary
    now = datetime.now(timezone.utc)
    made = now.strftime("%Y-%m-%d %H:%M UTC")
    return {
        "language": language,
        "title": word("llmperf report: {summary}, {made}", language).format(summary=subject, made=made[:10]),
        "made": word("written {made}", language).format(made=made),
        "made_iso": now.strftime("%Y-%m-%dT%H:%MZ"),
        "summary": summary,
        "verdicts": " ".join(closing_lines(sheets, language)),
        "words": {name: word(english, language) for name, english in WORDS.items()},
        "columns": [
            {
                name: value
                for name, value in asdict(column).items()
                if name not in ("key", "also", "figure", "bar", "whole")
            }
            | {"title": word(column.title, language)}
            for column in COLUMNS
        ],
        "figures": _figures(page, language),
        "rank": _default_rank(sheets),
        "models": sorted({standing.model for standing in found}),
        "most_sides": MAX_SIDES,
        "currencies": sorted({figure.currency for figure in figures if figure.currency}),
        "groups": [_group(entry, places, language) for entry in groups],
        "ratios": _ratios(found, places, language),
        "fields": [column.field for column in COLUMNS],
        "rows": page.rows.values,
        "sections": page.sections.values,
        "findings": page.findings.values,
        "contracts": page.contracts.values,
        "settings": page.settings.values,
        "runs": runs,
    }


def _are_estimates(sheets: Sequence[Sheet]) -> bool:
    return all(sheet.cell("provenance").value == "estimated" for sheet in sheets)


def _default_rank(sheets: Sequence[Sheet]) -> str:
    """Key of the figure by which the page ranks at first: the cost of estimates with prices, else the throughput."""
    if not _are_estimates(sheets):
        return ""
    costs = ("train_cost", "cost_per_million_tokens")
    return next((cost for cost in costs if any(sheet.cell(cost).value is not None for sheet in sheets)), "")


def _ratios(standings: Sequence[Standing], places: Mapping[int, int], language: str) -> dict[str, str]:
    """For pairs of kinds of one contract with several runs each: a sentence about `{side}` and `{base}`."""
    made: dict[str, str] = {}
    for standing in standings:
        repeated = [entry for entry in standing.entries if entry.measured and len(_speeds(entry)) > 1]
        for ours, theirs in permutations(repeated, 2):
            if len(made) == MAX_PAIRS:
                return made
            comparison = compare(_speeds(ours), _speeds(theirs))
            first, second = (min(places[id(sheet)] for sheet in entry.sheets) for entry in (ours, theirs))
            made[f"{first}/{second}"] = speed_line(comparison, "{side}", "{base}", language).text
    return made


def _speeds(entry: Entry) -> list[float]:
    """token/p/s of the complete runs."""
    complete = [sheet for sheet in entry.sheets if sheet.cell("status").value == "complete"]
    return [sheet.figure for sheet in complete if sheet.figure]


def _group(entry: Entry, places: Mapping[int, int], language: str) -> dict[str, Any]:
    """Repeats of one run: the indexes of its runs, figures (median, least, largest, number), and the disturbed."""
    complete = [sheet for sheet in entry.sheets if sheet.cell("status").value == "complete"]
    disturbed = disturbed_texts(complete or entry.sheets, language)
    keys = {column.field: column.figure or column.key for column in COLUMNS}
    figures = {field: entry.figures[key] for field, key in keys.items() if key in entry.figures}
    return {
        "runs": sorted(places[id(sheet)] for sheet in entry.sheets),
        "figures": {
            field: [known.median, known.low, known.high, known.runs]
            + ([money(known.median, known.currency)] if known.currency else [])
            for field, known in figures.items()
        },
        **({"disturbed": disturbed} if disturbed else {}),
    }


def _figures(page: PageRuns, language: str) -> list[dict[str, Any]]:
    """Label and rounding of each figure that is compared."""
    rows = page.compared[False] | page.compared[True]  # imported rows have no rounding
    costs = {column.key: column for column in COLUMNS if column.cost}
    described = []
    for key in COMPARED_FIGURES:
        of: PageColumn | Row | None = costs.get(key) or rows.get(key)
        title = of.title if isinstance(of, PageColumn) else of.label if of is not None else LABELS.get(key, key)
        rounding = None if of is None else of.rounding
        described.append({
            "key": key,
            "title": word(title, language),
            "rounding": None if rounding is None else asdict(rounding),
            "memory": key in MEMORY,
            "of_all": key == IN_USE_BY_ALL,
            "field": costs[key].field if key in costs else None,
        })  # fmt: skip
    return described
