"""A published document as it stands: its lines, sections and tables, and what in them was not understood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from llmperf.types.units import Count, Positive

SectionKind = Literal["hardware", "software", "parallelism", "optimisation", "batch", "general"]
"""Subject of the entries of a section."""

TableKind = Literal["general", "performance", "other"]
"""`general`: name, value, remark; `performance`: a result in each row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The document as it was read."""

    name: str
    """Name of its file, without folders."""
    sha256: str
    """SHA-256 of its bytes."""
    lines: Count
    """How many it has."""
    language: Literal["en", "zh"]
    """Language of its headings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A remark that belongs to no field."""

    line: Positive
    """Where it begins in the source."""
    text: str
    """As printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """Something that was not understood. It stands here so that nothing is dropped in silence."""

    line: Positive
    """Where it stands in the source."""
    text: str
    """As printed."""
    reason: str
    """Description of what was expected in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a section: a label and what it says."""

    line: Positive
    """Where it begins in the source."""
    label: str
    """As printed; empty where the line has none."""
    name: str | None
    """Meaning of the label, such as `accelerator`, `driver`, `seq_len`, `dataset`; None if unknown."""
    text: str
    """Printed text."""
    remark: str = ""
    """The third column of the general table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the document, by its heading."""

    line: Positive
    """Line of the heading."""
    heading: str
    """As printed, such as `H800 software environment`."""
    kind: SectionKind
    """Subject of the section."""
    entries: tuple[Entry, ...]
    """In their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a table."""

    header: str
    """As it stands in the source."""
    name: str | None
    """Meaning, such as `throughput`, `memory`, `mfu`; None if unknown."""
    unit: Literal["percent"] | None = None
    """How figures of a share are read that have no unit, in the header or beside them: percent where the largest is
    more than a share can be. None where a unit is printed, and for shares of 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One row of a table, below the headers."""

    line: Positive
    """Where it stands in the source."""
    cells: tuple[str, ...]
    """As they stand in the source, Markdown included; as many as the source has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table, cell by cell."""

    line: Positive
    """Line of the headers."""
    heading: str
    """Heading above it, as printed."""
    kind: TableKind
    """Kind of its content."""
    columns: tuple[Column, ...]
    """In their order."""
    rows: tuple[TableRow, ...]
    """All that are there, also those that name a group of rows."""

    def is_aligned(self, row: TableRow) -> bool:
        """Check whether a row has a cell for each header; in a shorter row, any cell may be missing."""
        return len(row.cells) >= len(self.columns)

    @property
    def measures_speed(self) -> bool:
        """A column is one of throughput or MFU."""
        return any(column.name in ("throughput", "mfu", "hfu") for column in self.columns)
