"""Imported documents in the formats of `llmperf report`, by themselves or beside measured results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from llmperf.errors import UserError
from llmperf.files.json_files import encode_pretty
from llmperf.reporting.formats import Results, csv_harmless, csv_row, csv_table
from llmperf.reporting.text_table import Paint

from llmperf_published.reporting.cells import csv_cells, ranked_row, terminal_row
from llmperf_published.rules.verdicts import closing, judged
from llmperf_published.types.document import Published

Documents = Sequence[tuple[Path, Published]]


def render(wanted: str, results: Results, documents: Documents, language: str) -> str:
    """Imported documents, after measured results if there are any; UserError for a format that cannot show them."""
    if wanted not in FORMATS:
        raise UserError(f"--format {wanted}: cannot show imported documents; expected one of: {', '.join(FORMATS)}")
    return FORMATS[wanted](results, documents, language)


def terminal(
    results: Results, documents: Documents, language: str, width: int | None = None, paint: Paint | None = None
) -> str:
    """One row a result; below the table how many of the imported rows were checked."""
    from llmperf.reporting.formats import terminal_text

    verdicts = [judged(one)[1] for _, one in documents]
    rows = [
        ranked_row(row, terminal_row(row, verdict, path.parent.name))
        for (path, one), found in zip(documents, verdicts, strict=True)
        for row, verdict in zip(one.rows, found, strict=True)
    ]
    text = terminal_text([result for _, result in results], rows, language, width, paint)
    every = [verdict for found in verdicts for verdict in found]
    return f"{text}\n{closing(every)}\n" if every else text


def _markdown(results: Results, documents: Documents, language: str) -> str:
    from llmperf.reporting.markdown_runs import render_runs

    return render_runs([result for _, result in results], language, documents)


def _json(results: Results, documents: Documents, language: str) -> str:
    listed: list[Mapping[str, Any]] = [{"path": str(path), "result": result} for path, result in results]
    for path, one in documents:
        verdicts = [verdict.document() for verdict in judged(one)[1]]
        listed.append({"path": str(path), "published": one, "verdicts": verdicts})
    return encode_pretty(listed).decode()


def _csv(results: Results, documents: Documents, language: str) -> str:
    """One row a result in the columns of measured results, as far as the document gives them."""
    rows = [dict(csv_row(path, result)) for path, result in results]
    for path, one in documents:
        for row, verdict in zip(one.rows, judged(one)[1], strict=True):
            rows.append({csv_harmless(name): _harmless(value) for name, value in csv_cells(path, row, verdict)})
    return csv_table(rows)


def _html(results: Results, documents: Documents, language: str) -> str:
    from llmperf_html.page import html

    return html(results, language, documents)


def _harmless(value: Any) -> Any:
    """Text that a spreadsheet would take for a formula is quoted."""
    return csv_harmless(value) if isinstance(value, str) else value


FORMATS: Mapping[str, Callable[[Results, Documents, str], str]] = {
    "terminal": terminal,
    "markdown": _markdown,
    "json": _json,
    "csv": _csv,
    "html": _html,
}
"""Those that can show imported documents."""
