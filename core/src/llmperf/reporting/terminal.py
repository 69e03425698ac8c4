"""What `llmperf run` ends with, and the table of several results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llmperf.reporting.cells import printable
from llmperf.reporting.ranking import Ranked, in_order
from llmperf.reporting.table import COLUMNS, ranked_result, result_rows
from llmperf.reporting.text_table import Paint, TextTable, laid_out
from llmperf.reporting.words import word
from llmperf.types import Result


def result_table(result: Result, language: str = "en", paint: Paint | None = None) -> str:
    """One result as a table of two columns, with its findings below."""
    from tabulate import tabulate

    rows = [[printable(word(label, language)), printable(value)] for label, value in result_rows(result)]
    if paint:
        rows = [[label, paint(value)] if label == word("status", language) else [label, value] for label, value in rows]
    lines = [tabulate(rows, tablefmt="plain", disable_numparse=True)]
    lines += [printable(f"{one.code} {one.severity} {one.path}: {one.message}") for one in result.findings]
    return "\n".join(lines)


def comparison_table(results: Sequence[Result], language: str = "en") -> str:
    """Several results, one a row, at full width."""
    return ranked_table([ranked_result(result) for result in results], language).text


def ranked_table(
    found: Sequence[Ranked[Sequence[str]]], language: str, width: int | None = None, paint: Paint | None = None
) -> TextTable:
    """Rows in their order under COLUMNS, within a width."""
    rows = [[printable(cell) for cell in row] for row in in_order(found)]
    columns = [replace(column, title=word(column.title, language)) for column in COLUMNS]
    return laid_out(columns, rows, width, paint)


def left_out_text(table: TextTable, language: str, remedy: str) -> str:
    """Which columns a narrow terminal has no room for, and how to see them."""
    missing = [*table.left_out, *[word("the ends of long cells", language)] * table.cut]
    return word("left out to fit the terminal: {columns} ({remedy})", language).format(
        columns=", ".join(missing), remedy=remedy
    )
