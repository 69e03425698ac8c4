"""One self-contained HTML file: a table of runs, and for each its curves, figures, environment and findings.

The page opens without a network. Text from documents is in one block of JSON that cannot end its element, and reaches
the page as text only; the policy in its head lets no other script run.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from html import escape
from pathlib import Path
from statistics import median
from string import Template
from typing import Any

from llmperf.reporting import COMPARED, PERCENT, THROUGHPUT, closing_lines, ordered, printable, rounded, shown
from llmperf.types import Sheet

from llmperf_html.run import PageRuns, rows_by_key
from llmperf_html.words import COLUMNS, LABELS, MEMORY, WORDS, PageColumn, word

WEB = Path(__file__).parent / "web"
STYLES = ("uplot/uPlot.min.css", "tabulator/tabulator_simple.min.css", "page.css")
SCRIPTS = ("uplot/uPlot.iife.min.js", "tabulator/tabulator.min.js", "dom.js", "charts.js", "overview.js", "page.js")
CURVE_BYTES = 24 * 2**20
"""Limit for the curves of all runs together: runs beyond it have none, and the page says so."""


def html(sheets: Sequence[Sheet], language: str) -> str:
    """The page."""
    scripts = [_library(name) for name in SCRIPTS]
    template = Template((WEB / "page.html").read_text(encoding="utf-8"))
    data = page_data(sheets, language)
    return template.substitute(
        language=language,
        title=escape(data["title"]),
        hashes=" ".join(_hash(script) for script in scripts),
        style="\n".join(_library(name) for name in STYLES),
        data=embedded(data),
        verdicts=f'<p id="verdicts">{escape(data["verdicts"])}</p>' if data["verdicts"] else "",
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def _library(name: str) -> str:
    """A file of the page, without the pointer to its source map, which is not included."""
    text = (WEB / name).read_text(encoding="utf-8")
    return "\n".join(line for line in text.splitlines() if "sourceMappingURL=" not in line)


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def embedded(value: Any) -> str:
    """JSON that is safe in a script element, whatever its strings hold."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))  # ASCII, so that no separator slips through
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def page_data(sheets: Sequence[Sheet], language: str) -> Mapping[str, Any]:
    """What the page shows, as plain JSON."""
    left, runs, page = CURVE_BYTES, [], PageRuns(language)
    repeats = _repeats(sheets)
    for sheet in ordered(sheets):
        run = page.run(sheet, repeats.get(sheet.repeats, ""), left > 0)
        left -= len(json.dumps(run["curves"]))
        runs.append(run)
    counted = "{all} run" if len(runs) == 1 else "{all} runs"
    summary = word(counted, language).format(all=len(runs))
    single = sheets[0] if len(sheets) == 1 else None
    subject = f"{printable(shown(single.cell('model')))}, {printable(single.name)}" if single else summary
    made = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    return {
        "title": word("llmperf report: {summary}, {made}", language).format(summary=subject, made=made[:10]),
        "made": word("written {made}", language).format(made=made),
        "summary": summary,
        "verdicts": " ".join(closing_lines(sheets)),
        "words": {name: word(english, language) for name, english in WORDS.items()},
        "columns": [_column(column, language) for column in COLUMNS],
        "figures": [{"title": word(label, language), "memory": key in MEMORY} for key, label in _labels(sheets)],
        "fields": [*(column.field for column in COLUMNS), "errors"],
        "rows": page.rows.values,
        "sections": page.sections.values,
        "findings": page.findings.values,
        "contracts": page.contracts.values,
        "settings": page.settings.values,
        "runs": runs,
    }


def _repeats(sheets: Sequence[Sheet]) -> dict[Hashable, str]:
    """For runs with repeats: their number, the median of token/p/s and the spread."""
    groups: dict[Hashable, list[float]] = {}
    for sheet in sheets:
        if sheet.repeats is not None and sheet.figure is not None and sheet.cell("status").value == "complete":
            groups.setdefault(sheet.repeats, []).append(sheet.figure)
    texts: dict[Hashable, str] = {}
    for repeats, figures in groups.items():
        middle = median(figures)
        if len(figures) > 1 and middle:
            spread = rounded((max(figures) - min(figures)) / middle, PERCENT)
            texts[repeats] = f"{len(figures)}: {rounded(middle, THROUGHPUT)}, {spread}"
    return texts


def _labels(sheets: Sequence[Sheet]) -> list[tuple[str, str]]:
    """Key and label of each figure that is compared."""
    labels: dict[str, str] = {}
    for sheet in sheets:
        if len(labels) < len(COMPARED):
            rows = rows_by_key(sheet)
            labels |= {key: rows[key].label for key in COMPARED if key in rows and key not in labels}
    return [(key, labels.get(key) or LABELS.get(key, key)) for key in COMPARED]


def _column(column: PageColumn, language: str) -> dict[str, Any]:
    return {**asdict(column), "title": word(column.title, language), "kind": "number" if column.number else "text"}
