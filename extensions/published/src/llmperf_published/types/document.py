"""A published document: `published.json`, a pure function of the document's text and the library.

A document has one setting (environment, strategy, batch defaults) and some rows, each a result of its own. Figures
keep what was printed beside the number; what the document does not say is None, never a guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from llmperf.types import Lora
from llmperf.types.devices import Dtype
from llmperf.types.spec import Change
from llmperf.types.units import Count, Positive

from llmperf_published.types.row import (
    Claim,
    ConfigurationName,
    Formula,
    OwnFacts,
    PublishedBatch,
    PublishedHardware,
    PublishedLayout,
    PublishedMetrics,
)

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
    read_as: str | None = None
    """Title that a reading profile gives it; None without one."""
    unit: Literal["percent"] | None = None
    """How figures of a share are read that have no unit, in the header or beside them: percent where the largest is
    more than a share can be. None where a unit is printed, and for shares of 1."""

    @property
    def title(self) -> str:
        """The header as it is read: the profile's title, otherwise what is printed."""
        return self.header if self.read_as is None else self.read_as


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRow:
    """One published result."""

    line: Positive
    """Its place in the source."""
    table: Count
    """Index of its table in the document."""
    row: Count
    """Index of its row in that table."""
    group: str | None
    """The row of the table that stands above several as their heading: `LLaMA-13B`."""
    model: str | None
    """Name of the model in the library; None where it has none, or the text does not say which."""
    model_text: str | None
    """As printed."""
    case: str | None
    """Name of the case in the library that is on this model, with this framework; None where there is no one such."""
    framework: str | None
    """Name of the framework plugin that the text points to; None where it points to none."""
    variant: bool
    """The row changes the contract of its case or, without a case, of the document's defaults."""
    fix_hp: tuple[Change, ...]
    """Differences from the case or, without a case, from the document's defaults, as far as the document says."""
    fix_hp_text: str | None
    """The cell as printed, without Markdown."""
    claims: tuple[Claim, ...]
    """Claims of the row about its global batch."""
    options: Mapping[str, str]
    """Everything that the row sets by name, as printed."""
    configuration_name: ConfigurationName | None
    """The configuration that the row names."""
    hardware: PublishedHardware
    """Machine of the run."""
    parallelism: PublishedLayout
    """How ranks shared the model."""
    parallel_text: str | None
    """The cell as printed, without Markdown."""
    batch: PublishedBatch
    """Batch settings."""
    precision: Dtype | None
    """None where the text does not fix one, as `amp` does not."""
    precision_text: str | None
    """As printed."""
    dataset: str | None
    """Name that cases know it by; None where they do not."""
    dataset_text: str | None
    """As printed."""
    metrics: PublishedMetrics
    """The figures."""
    lora: Lora | None = None
    """Adapters that the importer stated."""
    stated: tuple[str, ...] = ()
    """What the importer stated, as the document does not: `device`, `devices`, `model`, `precision`, `sequence length`,
    `lora`, or `columns` whose titles are those of a profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One published document, whole."""

    schema: str
    """Name and version of this document's schema."""
    provenance: Literal["imported"]
    """Taken from a published document; nothing was measured here."""
    title: str
    """Its first heading on configuration and results, else its first heading, as printed."""
    source: Source
    """The document as it was read."""
    vendor: str | None
    """The vendor that the title, the environment or the rows name, or that alone publishes the devices that they name;
    otherwise the one that the importer stated. None where there is no one such."""
    headings: tuple[Note, ...]
    """All of them, also those of the sections."""
    sections: tuple[Section, ...]
    """Environment, strategies, batch defaults, general metrics."""
    defaults: PublishedBatch
    """Batch settings where a row says nothing else."""
    strategy: PublishedLayout
    """The same of the layout."""
    formula: Formula | None
    """How the document says that the global batch is computed; None where it does not say."""
    configuration_names: tuple[ConfigurationName, ...]
    """Configurations that the text names outside of rows."""
    datasets: tuple[Note, ...]
    """Each place where the document names the training data, by what it says there."""
    tables: tuple[Table, ...]
    """Cell by cell."""
    rows: tuple[PublishedRow, ...]
    """The results, in their order."""
    notes: tuple[Note, ...]
    """Remarks."""
    unread: tuple[Unread, ...]
    """Text that was not understood."""
    own: OwnFacts | None = None
    """Peaks, models and statements that whoever imported the document added; None where they added none."""

    def entry(self, name: str, *kinds: SectionKind) -> Entry | None:
        """The first entry of that name, in sections of these kinds if any are given; None if there is none."""
        found = (
            entry for one in self.sections if not kinds or one.kind in kinds for entry in one.entries
            if entry.name == name
        )  # fmt: skip
        return next(found, None)

    def is_about_results(self, unread: Unread) -> bool:
        """Check whether something unread is in a table of results or in a section that is understood."""
        tables = (table for table in self.tables if table.kind != "other" or table.measures_speed)
        places = [(table.line, max((row.line for row in table.rows), default=table.line)) for table in tables]
        lines = {entry.line for section in self.sections for entry in section.entries}
        return unread.line in lines or any(first <= unread.line <= last for first, last in places)

    def cells(self, row: PublishedRow) -> Mapping[str, str]:
        """The cells of a row by what their columns mean; columns of unknown meaning are left out.

        Empty where the document has no such table or row.
        """
        table = self.tables[row.table] if row.table in range(len(self.tables)) else None
        if table is None or row.row not in range(len(table.rows)):
            return {}
        cells = table.rows[row.row].cells
        if not table.is_aligned(table.rows[row.row]):
            cells = cells[:1]
        return {
            column.name: cell for column, cell in zip(table.columns, cells, strict=False)
            if column.name is not None
        }  # fmt: skip
