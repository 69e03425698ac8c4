"""What `llmperf run` ends with."""

from __future__ import annotations

from collections.abc import Sequence

from llmperf.reporting.cells import printable
from llmperf.reporting.table import HEADERS, comparison_row, result_rows
from llmperf.reporting.words import word
from llmperf.types import Result

FIX_HP_WIDTH = 40
"""Columns; longer lists of changes go on in the next line."""


def result_table(result: Result, language: str = "en") -> str:
    """One result as a table of two columns, with its findings below."""
    from tabulate import tabulate

    rows = [[printable(word(label, language)), printable(value)] for label, value in result_rows(result)]
    lines = [tabulate(rows, tablefmt="plain", disable_numparse=True)]
    lines += [printable(f"{one.code} {one.severity} {one.path}: {one.message}") for one in result.findings]
    return "\n".join(lines)


def comparison_table(results: Sequence[Result], language: str = "en") -> str:
    """Several results, one a row."""
    return rows_table([comparison_row(result) for result in results], language)


def rows_table(found: Sequence[Sequence[str]], language: str) -> str:
    """Rows under the headers of the comparison table."""
    from tabulate import tabulate

    rows = [[printable(cell) for cell in row] for row in found]
    widths = [FIX_HP_WIDTH if header == "fix_hp" else None for header in HEADERS]
    headers = [word(header, language) for header in HEADERS]
    return tabulate(rows, headers=headers, tablefmt="simple", disable_numparse=True, maxcolwidths=widths)
