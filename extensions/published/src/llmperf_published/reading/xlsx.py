"""Workbooks (.xlsx) as blocks: each sheet is a heading, and each group of rows without an empty row is a table."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any
from zipfile import ZipFile

from llmperf.errors import UserError

from llmperf_published.reading.markdown import Block, unmarked

XLSX = ".xlsx"
MAX_UNPACKED = 4 * 2**20
"""Bytes of all parts of a workbook."""
MAX_ROWS, MAX_COLUMNS, MAX_SHEETS = 2000, 100, 20


def xlsx_blocks(data: bytes, name: str) -> list[Block]:
    """The tables of a workbook with their line numbers, of formulas the values that were saved with them.

    UserError if openpyxl is not installed, and for what is no workbook, too large, or declares XML entities.
    """
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise UserError(f"{name}: expected openpyxl; install it with: pip install 'llmperf-published[xlsx]'") from None
    try:
        with ZipFile(BytesIO(data)) as archive:
            parts = archive.infolist()
            sheets = [part for part in parts if part.filename.startswith("xl/worksheets/")]
            if sum(part.file_size for part in parts) > MAX_UNPACKED or len(sheets) > MAX_SHEETS:
                most = f"{MAX_UNPACKED // 2**20} MiB unpacked or {MAX_SHEETS} sheets"
                raise UserError(f"{name}: more than {most}, the most that are read; save its table as CSV")
            if any(b"<!DOCTYPE" in archive.read(part).replace(b"\0", b"") for part in parts):  # also of UTF-16
                raise UserError(f"{name}: expected a workbook without XML entities, found a DOCTYPE")
        workbook = load_workbook(BytesIO(data), read_only=True, data_only=True, keep_links=False)
        return [block for sheet in workbook.worksheets[:MAX_SHEETS] for block in _blocks(sheet, name)]
    except UserError:
        raise
    except Exception as error:  # of zipfile, openpyxl and its XML parser, for whatever is no workbook
        raise UserError(f"{name}: expected a workbook, found {type(error).__name__}: {str(error)[:200]}") from None


def _blocks(sheet: Any, name: str) -> Iterator[Block]:
    yield Block("heading", 1, unmarked(sheet.title), 1)
    table: list[tuple[int, list[str]]] = []
    values = sheet.iter_rows(max_row=MAX_ROWS + 1, max_col=MAX_COLUMNS + 1, values_only=True)
    for line, row in enumerate((*values, ()), 1):
        texts = ("" if cell is None else format(cell, ".12g" if isinstance(cell, float) else "") for cell in row)
        cells = [unmarked(" ".join(text.split())) for text in texts] if row.count(None) < len(row) else []
        if any(cells):
            if line > MAX_ROWS or any(cells[MAX_COLUMNS:]):
                most = f"{MAX_ROWS} rows and {MAX_COLUMNS} columns"
                raise UserError(f"{name}: more than {most} in sheet {sheet.title!r}, the most that are read")
            table.append((line, [*cells, *[""] * (MAX_COLUMNS - len(cells))]))
        elif table:
            used = [place for _, cells in table for place, cell in enumerate(cells) if cell]
            rows = ((at, tuple(cells[min(used) : max(used) + 1])) for at, cells in table)
            yield Block("table", table[0][0], rows=tuple(rows))
            table = []
