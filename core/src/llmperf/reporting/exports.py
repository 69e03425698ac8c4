"""Sheets for programs: CSV and JSON, with exact values."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from functools import cache
from typing import Any

from llmperf.files.json_files import encode_pretty
from llmperf.reporting.cells import UNKNOWN, leaves, text
from llmperf.reporting.words import printable
from llmperf.types import Sheet

FORMULA_SIGNS = tuple("=+-@＝＋－＠")
"""First characters of formulas; some spreadsheets take full-width signs too."""


class CsvReporter:
    """`llmperf report --format csv`: one line a run, with exact values; an unknown value is an empty field."""

    name = "csv"

    def render(self, sheets: Sequence[Sheet], language: str) -> str:
        """A table under the columns of all sheets, in the order in which these first come."""

        @cache  # most texts are those of other runs too
        def harmless(value: str) -> str:
            """Text on one line that no spreadsheet takes for a formula."""
            line = printable(value)
            return f"'{line}" if line.startswith(FORMULA_SIGNS) else line

        rows: list[dict[str, Any]] = []
        for sheet in sheets:
            values = {"path": str(sheet.source.path), **sheet_values(sheet)}
            rows.append(
                {
                    harmless(name): harmless(text(value)) if isinstance(value, (str, bool)) else value
                    for name, value in values.items()
                }
            )
        columns = list(dict.fromkeys(name for row in rows for name in row))
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([row.get(name, "") for name in columns] for row in rows)
        return out.getvalue()


class JsonReporter:
    """`llmperf report --format json`: the documents, with the exact values of their sheets by key."""

    name = "json"

    def render(self, sheets: Sequence[Sheet], language: str) -> str:
        """An array of documents: `path`, the document under the name of its kind, and `rows`, one for each sheet."""
        by_document: dict[int, list[Sheet]] = {}
        for sheet in sheets:
            by_document.setdefault(id(sheet.source), []).append(sheet)
        documents = []
        for members in by_document.values():
            source, rows = members[0].source, list(map(sheet_values, members))
            documents.append({"path": str(source.path), source.kind: source.document, "rows": rows})
        return encode_pretty(documents).decode()


def sheet_values(sheet: Sheet) -> dict[str, str | int | float | bool | None]:
    """The exact values of a sheet by key, those of its tables left out."""
    rows = [*sheet.overview, *(row for section in sheet.sections() for row in section.rows)]
    values: dict[str, str | int | float | bool | None] = {}
    for row in leaves(rows):
        if row.key:
            values.setdefault(row.key, None if row.value == UNKNOWN else row.value)
    return values
