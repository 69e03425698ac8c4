"""One self-contained HTML file: a table of runs, and for each its curves, figures, environment and findings.

The page opens with no network. What comes from results is one block of JSON that cannot end its element, and reaches
the page as text only; the policy in its head lets no other script run.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from llmperf.errors import UserError
from llmperf.reporting.html_run import curves, finding_text, run_row, sections
from llmperf.reporting.words import word
from llmperf.types import Finding, Result
from llmperf.types.published import Published
from llmperf.validation.check import Validator

WEB = Path(__file__).parents[1] / "data" / "web"
STYLES = ("uplot/uPlot.min.css", "tabulator/tabulator_simple.min.css", "page.css")
SCRIPTS = ("uplot/uPlot.iife.min.js", "tabulator/tabulator.min.js", "page.js")
CURVE_BYTES = 24 * 2**20
"""For the curves of all runs together: beyond it, later runs have none, and the page says so."""

COLUMNS: Sequence[tuple[str, str, str, int]] = (
    ("case", "case", "text", 0),
    ("device", "device", "text", 0),
    ("framework", "framework", "text", 0),
    ("throughput", "token/p/s", "number", 1),
    ("mfu", "MFU (nominal), %", "number", 2),
    ("errors", "errors", "number", 0),
    ("layout", "layout", "text", 0),
    ("fix_hp", "fix_hp", "text", 0),
    ("loss", "loss", "number", 4),
    ("memory", "memory of a device, GiB", "number", 1),
    ("power", "power, W", "number", 0),
    ("status", "status", "text", 0),
    ("provenance", "provenance", "text", 0),
    ("created", "made", "text", 0),
    ("run", "run", "text", 0),
)
"""Field, title, kind, digits after the point."""

WORDS = {
    "loss": "loss",
    "step": "step",
    "nats": "nats per token",
    "step_seconds": "step time",
    "memory_bytes": "memory in use on a device",
    "power_watts": "power of a device",
    "utilisation_percent": "utilisation of a device",
    "findings": "Findings",
    "no_findings": "No findings.",
    "no_curves": "No curves: the run's records are not beside its result, or the report would be too large.",
    "contracts_differ": "The contracts differ: these figures measure different things.",
    "figure": "figure",
    "open": "open",
    "compare": "compare",
    "compare_two": "Compare the two chosen runs",
    "search": "Search",
    "nothing": "No run fits.",
}


def html(
    results: Sequence[tuple[Path, Result]], language: str, published: Sequence[tuple[Path, Published]] = ()
) -> str:
    """The page. Each result comes with the file it was read from, beside which its records are looked for."""
    scripts = [_library(name) for name in SCRIPTS]
    template = Template((WEB / "page.html").read_text(encoding="utf-8"))
    return template.substitute(
        language=language,
        hashes=" ".join(_hash(one) for one in scripts),
        style="\n".join(_library(name) for name in STYLES),
        data=embedded(document(results, language, published)),
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
    left, runs, validator = CURVE_BYTES, [], Validator()
    for path, result in results:
        run = _run(path, result, language, left > 0, tuple(validator.of_result(result, path)))
        left -= len(json.dumps(run["curves"]))
        runs.append(run)
    if published:
        from llmperf.reporting.published_html import published_runs

        for path, one in published:
            runs += published_runs(one, language, tuple(validator.of_published(one, path)))
    columns = [
        {"field": field, "title": word(title, language), "kind": kind, "digits": digits}
        for field, title, kind, digits in COLUMNS
    ]
    return {
        "summary": f"{len(runs)} {'run' if len(runs) == 1 else 'runs'}",
        "words": {name: word(english, language) for name, english in WORDS.items()},
        "columns": columns,
        "figures": [column for column in columns if column["kind"] == "number" and column["field"] != "errors"],
        "runs": runs,
    }


def _run(path: Path, result: Result, language: str, with_curves: bool, findings: Sequence[Finding]) -> dict[str, Any]:
    return {
        "row": run_row(result, findings),
        "contract": json.dumps(_contract(result), sort_keys=True),
        "sections": [
            {"title": word(title, language), "headers": [word(one, language) for one in headers], "rows": rows}
            for title, headers, rows in sections(result)
        ],
        "findings": [finding_text(one) for one in findings],
        "curves": _curves(path, result) if with_curves else None,
    }


def _contract(result: Result) -> Any:
    from llmperf.documents import builtins

    return builtins(result.contract)


def _curves(path: Path, result: Result) -> Mapping[str, Any] | None:
    try:
        return curves(path.parent, result)
    except (UserError, LookupError, ArithmeticError, ValueError, TypeError):
        return curves(None, result)  # records that cannot be read are the validator's to tell
