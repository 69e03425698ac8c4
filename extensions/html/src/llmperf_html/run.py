"""One sheet as the page takes it: its row in the table, its sections, its curves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from llmperf.reporting import COMPARED, UNKNOWN, finding_text, leaves, printable, shown
from llmperf.types import Curves, Row, Section, Sheet

from llmperf_html.words import COLUMNS, NO_LOSS, NO_RECORDS, TOO_LARGE, word

EXPANDED = ("dependencies", "environment")
"""Rows whose parts have a line each: on a page there is room for all of them."""


def run_data(sheet: Sheet, language: str, repeats: str, with_curves: bool) -> dict[str, Any]:
    """Everything about one run as plain JSON. `repeats` says how it compares with the repeats of it."""
    rows = rows_by_key(sheet)
    known = sheet.curves() if sheet.curves is not None and with_curves else None
    missing = NO_RECORDS if sheet.curves is None else NO_LOSS if with_curves else TOO_LARGE
    cells = {column.field: rows.get(column.key, Row(key="", label="", value=None)) for column in COLUMNS}
    row = {field: _sortable(cell) for field, cell in cells.items()}
    texts = {field: printable(shown(cell)) for field, cell in cells.items()}
    own: dict[str, Any] = {"run": printable(sheet.name), "repeats": repeats or UNKNOWN}
    compared = [rows.get(key) for key in COMPARED]
    return {
        "row": row | own | {"errors": sheet.cell("errors").value},
        "printed": texts | own,
        "measured": sheet.measured,
        "complete": not sheet.measured or sheet.cell("status").value == "complete",
        "contract": sheet.contract,
        "setting": {word(label, language): text for label, text in sheet.setting.items()},
        "figures": [(None, UNKNOWN) if cell is None else (cell.value, printable(shown(cell))) for cell in compared],
        "sections": [_section(section, language) for section in _sections(sheet)],
        "findings": [{"severity": finding.severity, "text": finding_text(finding)} for finding in sheet.findings],
        "curves": None if known is None else _curves(known),
        **({} if known else {"no_curves": word(missing, language)}),
    }


def rows_by_key(sheet: Sheet) -> dict[str, Row]:
    """The rows of a sheet by key, composed ones and their parts."""
    rows = [*sheet.overview, *(row for section in sheet.sections() for row in section.rows)]
    named: dict[str, Row] = {}
    for row in [*sheet.overview, *leaves(rows)]:
        named.setdefault(row.key, row)
    return named


def _sortable(row: Row) -> str | float | None:
    """A number, or the text that is shown."""
    if isinstance(row.value, (int, float)) and not isinstance(row.value, bool):
        return row.value
    return None if row.value is None and not row.parts else printable(shown(row))


def _sections(sheet: Sheet) -> Iterator[Section]:
    """All sections; of several with one key only the first, which sums up the others."""
    keys: set[str] = set()
    for section in sheet.sections():
        if section.key not in keys:
            keys.add(section.key)
            yield section


def _section(section: Section, language: str) -> dict[str, Any]:
    """Title, level of the heading, headers and cells; without headers, the first cell of a row is its label."""
    lines = [[line] for line in section.lines]
    title = {"title": word(section.title, language), "level": section.level}
    if section.records:
        headers = [printable(word(cell.label, language)) for cell in section.records[0]]
        return {**title, "headers": headers, "rows": [_texts(record) for record in section.records] + lines}
    rows = [part for row in section.rows for part in (row.parts if row.key in EXPANDED else (row,))]
    labels = ([printable(word(row.label, language))] if row.label else [] for row in rows)
    cells = [[*label, printable(shown(row))] for label, row in zip(labels, rows, strict=True)]
    return {**title, "headers": [], "rows": cells + lines}


def _texts(rows: Iterable[Row]) -> Sequence[str]:
    return [printable(shown(row)) for row in rows]


def _curves(curves: Curves) -> Mapping[str, Any]:
    """Curves to six digits, which is more than a screen shows."""
    data: dict[str, Any] = {}
    for name, curve in curves.by_name.items():
        points = {part: [float(f"{value:.6g}") for value in getattr(curve, part)] for part in ("x", "middle")}
        if name != "loss":
            points |= {part: [float(f"{value:.6g}") for value in getattr(curve, part)] for part in ("low", "high")}
        data[name] = {**points, "of": curve.of}
    limits = ("window_seconds", "entropy", "warmup_steps")
    return data | {name: getattr(curves, name) for name in limits}
