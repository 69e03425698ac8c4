"""Tables by what their columns mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llmperf_published.reading.cell_text import plain
from llmperf_published.reading.figure_units import with_units
from llmperf_published.reading.markdown import Block
from llmperf_published.reading.vocabulary import COUNTS, HeadingKind, column_meaning, heading_kind, meaning
from llmperf_published.types.document import Column, Entry, Table, TableKind, TableRow, Unread

FIGURES = frozenset(["throughput", "memory", "mfu", "hfu", "loss", "evaluation"])
"""Columns that hold what was measured."""
_AS_COLUMN = {"changes": "fix_hp", "accelerator": "device"}
"""Meanings of labels that are others as columns: the changes of a label may be the layout too."""
CIRCUMSTANCES = frozenset(
    ["configuration", "fix_hp", "parallel", "config_name", "precision", "device", "model", *COUNTS]
)
"""Columns that say under what circumstances."""


def table_of(block: Block, heading: str, kind: HeadingKind | None) -> Table:
    """A block of rows as a table, its kind told by its columns, and by the heading where they leave it open."""
    (line, headers), *rows = block.rows
    columns = with_units(_columns(headers), [cells for _, cells in rows])
    return Table(
        line=line,
        heading=heading,
        kind=_kind(columns, kind),
        columns=columns,
        rows=tuple(TableRow(line=number, cells=cells) for number, cells in rows),
    )


def _columns(headers: Sequence[str]) -> tuple[Column, ...]:
    """A second column of a meaning has none, but for evaluations and for throughput of one device and of all."""
    seen: set[str] = set()
    columns = []
    for header in headers:
        name = column_meaning(header)
        name = _AS_COLUMN.get(name or "", name)
        if name in seen and name not in ("evaluation", "throughput"):
            name = None
        seen.add(name or "")
        columns.append(Column(header=header, name=name))
    return tuple(columns)


def _kind(columns: Sequence[Column], heading: HeadingKind | None) -> TableKind:
    names = [column.name for column in columns]
    if {"item", "value"} <= set(names) or (heading == "general" and len(columns) in (2, 3)):
        return "general"
    figures = len(FIGURES.intersection(filter(None, names)))
    if figures and (figures >= 2 or CIRCUMSTANCES.intersection(filter(None, names)) or heading == "performance"):
        return "performance"
    return "other"


def table_again(table: Table) -> Table:
    """What the columns of a table mean and what it holds, told again from its text."""
    headers = [column.header for column in table.columns]
    columns = with_units(_columns(headers), [row.cells for row in table.rows])
    return replace(table, columns=columns, kind=_kind(columns, heading_kind(table.heading)))


def general_entries(table: Table) -> tuple[list[Entry], list[Unread]]:
    """The rows of the general table as entries, and those with a label that is not known."""
    places = {column.name: index for index, column in enumerate(table.columns) if column.name}
    item, value = places.get("item", 0), places.get("value", 1)
    remark = places.get("remark", next((index for index in range(3) if index not in (item, value)), 2))
    entries, unknown = [], []
    for row in table.rows:
        cells = [*map(plain, row.cells), *[""] * 3]
        label, text, told = cells[item], cells[value], cells[remark] if remark < len(row.cells) else ""
        entry = Entry(line=row.line, label=label, name=general_name(label, text), text=text, remark=told)
        entries.append(entry)
        if entry.name is None and any(cells):
            shown = " | ".join(row.cells)
            unknown.append(
                Unread(line=row.line, text=shown, reason="expected a known general metric; its cells are kept")
            )
    return entries, unknown


def general_name(label: str, text: str) -> str | None:
    """A general metric by its label; `fix_hp` and `parallel` share one, and what they point to tells them apart."""
    name = column_meaning(label)
    if name == "changes":
        pointed = meaning(text)
        return pointed if pointed in ("parallel", "fix_hp") else name
    return name
