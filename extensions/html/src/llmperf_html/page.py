"""One self-contained HTML file: a table of runs, and for each its curves, figures, environment and findings.

The page opens with no network. What comes from results is one block of JSON that cannot end its element, and reaches
the page as text only; the policy in its head lets no other script run.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from llmperf.errors import UserError
from llmperf.reporting.comparison import FIGURES
from llmperf.reporting.contract_parts import contract_parts
from llmperf.reporting.ranking import Ranked, in_order, ranked_run
from llmperf.reporting.words import word
from llmperf.types import Finding, Result
from llmperf.validation.check import Validator
from llmperf_published.types.document import Published

from llmperf_html.compare import MEMORY, figures, setting_parts
from llmperf_html.run import curves, finding_text, run_row, sections
from llmperf_html.words import COLUMNS, NO_LOSS, TOO_LARGE, WORDS, PageColumn

WEB = Path(__file__).parent / "web"
STYLES = ("uplot/uPlot.min.css", "tabulator/tabulator_simple.min.css", "page.css")
SCRIPTS = ("uplot/uPlot.iife.min.js", "tabulator/tabulator.min.js", "dom.js", "charts.js", "overview.js", "page.js")
CURVE_BYTES = 24 * 2**20
"""For the curves of all runs together: beyond it, later runs have none, and the page says so."""


def html(
    results: Sequence[tuple[Path, Result]], language: str, published: Sequence[tuple[Path, Published]] = ()
) -> str:
    """The page. Each result comes with the file it was read from, beside which its records are looked for."""
    scripts = [_library(name) for name in SCRIPTS]
    template = Template((WEB / "page.html").read_text(encoding="utf-8"))
    data = document(results, language, published)
    return template.substitute(
        language=language,
        title=escape(data["title"]),
        hashes=" ".join(_hash(one) for one in scripts),
        style="\n".join(_library(name) for name in STYLES),
        data=embedded(data),
        verdicts=f'<p id="verdicts">{escape(data["verdicts"])}</p>' if data["verdicts"] else "",
        scripts="\n".join(f"<script>{one}</script>" for one in scripts),
    )


def _library(name: str) -> str:
    """A file of the page, without the pointer to a source map that is not there."""
    text = (WEB / name).read_text(encoding="utf-8")
    return "\n".join(line for line in text.splitlines() if "sourceMappingURL=" not in line)


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def embedded(value: Any) -> str:
    """JSON that can stand in a script element whatever its strings hold."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))  # ASCII, so that no separator slips through
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def document(
    results: Sequence[tuple[Path, Result]], language: str, published: Sequence[tuple[Path, Published]] = ()
) -> Mapping[str, Any]:
    """What the page shows, as plain JSON. Findings are made here: what a document says of itself is not believed."""
    left, validator = CURVE_BYTES, Validator()
    lines: list[Ranked[dict[str, Any]]] = []
    closed = ""
    for path, result in results:
        run = _run(path, result, language, left > 0, tuple(validator.of_result(result, path)))
        left -= len(json.dumps(run["curves"]))
        lines.append(ranked_run(result, run, result.metrics.tokens_per_second_per_device))
    if published:
        from llmperf_published.reporting.cells import ranked_row
        from llmperf_published.reporting.html import published_runs
        from llmperf_published.rules.verdicts import Verdict, closing

        every: list[Verdict] = []
        for path, one in published:
            told = tuple(validator.of_published(one, path))
            found = published_runs(one, language, told, validator.verdicts)
            lines += [ranked_row(row, run) for row, run in zip(one.rows, found, strict=True)]
            every += validator.verdicts
        closed = closing(every) if every else ""
    runs = in_order(lines)
    counted = "{all} run" if len(runs) == 1 else "{all} runs"
    summary = word(counted, language).format(all=len(runs))
    subject = f"{runs[0]['row']['model']}, {runs[0]['row']['run']}" if len(runs) == 1 else summary
    made = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    return {
        "title": word("llmperf report: {summary}, {made}", language).format(summary=subject, made=made[:10]),
        "made": word("written {made}", language).format(made=made),
        "summary": summary,
        "verdicts": closed,
        "words": {name: word(english, language) for name, english in WORDS.items()},
        "columns": [_column(column, language) for column in COLUMNS],
        "figures": [{"title": word(name, language), "memory": name in MEMORY} for name in FIGURES],
        "contracts": _shared(runs, "contract"),
        "settings": _shared(runs, "setting"),
        "runs": runs,
    }


def _column(column: PageColumn, language: str) -> dict[str, Any]:
    kind = "text" if column.digits is None else "number"
    return {**asdict(column), "title": word(column.title, language), "kind": kind}


def _shared(runs: Sequence[dict[str, Any]], part: str) -> list[Mapping[str, str]]:
    """That part of every run, each once; a run then has the place of its own."""
    places: dict[str, int] = {}
    different: list[Mapping[str, str]] = []
    for run in runs:
        place = places.setdefault(json.dumps(run[part], sort_keys=True), len(different))
        if place == len(different):
            different.append(run[part])
        run[part] = place
    return different


def _run(path: Path, result: Result, language: str, with_curves: bool, findings: Sequence[Finding]) -> dict[str, Any]:
    drawn = _curves(path, result) if with_curves else None
    return {
        "row": run_row(result, findings),
        "printed": {},
        "contract": contract_parts(result),
        "setting": {word(name, language): text for name, text in setting_parts(result).items()},
        "figures": figures(result),
        "sections": [_section(language, *section) for section in sections(result)],
        "findings": [finding_text(one) for one in findings],
        "curves": drawn,
        **({} if drawn else {"no_curves": word(NO_LOSS if with_curves else TOO_LARGE, language)}),
    }


def _section(language: str, title: str, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Without headers, the first cell of a row is its label."""
    labelled = rows if headers else [[word(label, language), *others] for label, *others in rows]
    return {"title": word(title, language), "headers": [word(one, language) for one in headers], "rows": labelled}


def _curves(path: Path, result: Result) -> Mapping[str, Any] | None:
    try:
        return curves(path.parent, result)
    except (UserError, LookupError, ArithmeticError, ValueError, TypeError):
        return curves(None, result)  # records that cannot be read are the validator's to tell
