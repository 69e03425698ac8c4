"""The structure of a document: sections with labelled entries, tables by the meaning of their columns, notes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

from llmperf_published.reading.cells import with_units
from llmperf_published.reading.markdown import Block, in_one_line, normal, plain
from llmperf_published.reading.vocabulary import (
    COUNTS,
    OTHER_DEGREES,
    SETTINGS,
    HeadingKind,
    column_meaning,
    header_names_inference,
    heading_kind,
    is_bullet_heading,
    meaning,
    names_inference,
    row_names_inference,
)
from llmperf_published.types.document import (
    Column,
    Entry,
    Note,
    Section,
    SectionKind,
    Table,
    TableKind,
    TableRow,
    Unread,
)

FIGURES = frozenset(["throughput", "memory", "mfu", "hfu", "flops", "loss", "evaluation"])
"""Columns with measured figures."""
CIRCUMSTANCES = frozenset(
    ["configuration", "fix_hp", "parallel", "config_name", "precision", "device", "machine", "model", *COUNTS]
)
"""Columns that describe the machine or the settings of a row."""
SPEEDS = frozenset(["throughput", "mfu", "hfu", "flops"])
"""Figures of training, which make a table one of results with any setting beside them."""

_COLUMN_NAMES = {"changes": "fix_hp", "accelerator": "device"}
"""Meanings of labels that have another name as columns."""
_LABELLED = re.compile(r"([^:：\n]{1,60}?)\s*[:：]\s*(.*)", re.DOTALL)
_BATCH = re.compile(r"([^,，:：=]{1,80}?)\s*(?:恒等于|等于|[,，:：=]|\s(?:equals|is always|is)\s)\s*(.*)", re.DOTALL)
_REMARK = re.compile(r"(?:注意?|备注|值得注意的是|notes?|remarks?)\s*[:：,，]", re.IGNORECASE)
"""The beginning of a remark among the entries of a section."""
_PACKAGE = re.compile(r"[\w.\-]+\s*==\s*[\w.\-+]+")
_HERE = re.compile(r"(?:在)?本case中\s*[,，]\s*|in this case\s*,\s*", re.IGNORECASE)
"""Words that may precede a label."""
_UNLABELLED = {"parallelism": "technique", "optimisation": "scheme"}
"""The name of a line without a label, by section."""


@dataclass
class Contents:
    """The parts of a document, and what was not understood."""

    title: str = ""
    headings: list[Note] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)

    def entries(self, kind: SectionKind, name: str | None = None) -> list[Entry]:
        """The entries of all sections of a kind, or those of one name."""
        entries = [entry for section in self.sections if section.kind == kind for entry in section.entries]
        return entries if name is None else [entry for entry in entries if entry.name == name]

    def text(self, kind: SectionKind, name: str) -> str | None:
        """The text of the first entry of that name."""
        return next((entry.text for entry in self.entries(kind, name)), None)

    def words(self, kind: SectionKind) -> str:
        """The text of all sections of a kind in lower case."""
        return normal(" ".join(entry.text for entry in self.entries(kind))).lower()

    def missing(self, line: int, text: str, reason: str) -> None:
        """Record something that was not understood."""
        unread = Unread(line=line, text=text, reason=reason)
        if unread not in self.unread[-50:]:  # a row with columns of two precisions is read twice
            self.unread.append(unread)


@dataclass
class _Place:
    """The heading that the reader is below, with the entries so far."""

    line: int = 1
    heading: str = ""
    kind: HeadingKind | None = None
    entries: list[Entry] = field(default_factory=list)
    inference: tuple[int, str] | None = None
    """Level and text of the heading that says that everything below it is on inference."""

    @property
    def heading_of_tables(self) -> str:
        """The heading, below that of inference where it is another one."""
        above = self.inference[1] if self.inference else self.heading
        return self.heading if above == self.heading else f"{above}: {self.heading}"


def contents(blocks: Sequence[Block]) -> Contents:
    """Sort the blocks of a document into its parts."""
    result, place = Contents(), _Place()
    for block in blocks:
        bullet = block.kind in ("item", "text") and is_bullet_heading(block.text)
        if block.kind == "heading" or bullet:
            _close(place, result)
            place = _heading(block, place, result)
        elif block.kind == "table":
            _enter_table(block, place, result)
        elif place.kind in get_args(SectionKind) and place.kind != "general" and block.kind in ("item", "text"):
            _enter_line(block, place, result)
        elif block.kind == "code" and place.kind != "notes":
            result.missing(block.line, block.text, "expected no code here")
        elif block.kind == "item" and place.kind in (None, "environment", "title"):
            result.missing(block.line, plain(in_one_line(block.text)), "expected a known heading above it")
        elif block.text:
            result.notes.append(Note(line=block.line, text=block.text))
    _close(place, result)
    return result


def _heading(block: Block, before: _Place, result: Contents) -> _Place:
    text = plain(block.text)
    kind = heading_kind(block.text)
    result.headings.append(Note(line=block.line, text=text))
    if kind == "title" or not result.title:
        result.title = text
    if kind is None:
        result.missing(block.line, text, "expected a known heading")
    inference = before.inference
    if inference is not None and block.kind == "heading" and block.level <= inference[0]:
        inference = None
    if names_inference(block.text):
        inference = inference or (block.level, text)
    return _Place(line=block.line, heading=text, kind=kind, inference=inference)


def _close(place: _Place, result: Contents) -> None:
    """Add the section that ends here; a heading without entries below it is no section."""
    for kind in get_args(SectionKind):
        if place.kind == kind and place.entries:
            section = Section(line=place.line, heading=place.heading, kind=kind, entries=tuple(place.entries))
            result.sections.append(section)


def _enter_line(block: Block, place: _Place, result: Contents) -> None:
    text = plain(in_one_line(block.text))
    if _REMARK.match(text):
        result.notes.append(Note(line=block.line, text=block.text))
        return
    entry = _batch_entry(block, text) if place.kind == "batch" else _entry(block, text, place.kind)
    place.entries.append(entry)
    if entry.name is None:
        expected = "a known label" if entry.label else "a label"
        result.missing(block.line, text, f"expected {expected} ({place.kind})")


def _entry(block: Block, text: str, kind: HeadingKind | None) -> Entry:
    """`label: text`; in a strategy, a line without a known label is all text."""
    match, unlabelled = _LABELLED.fullmatch(text), _UNLABELLED.get(kind or "")
    if kind == "software" and _PACKAGE.fullmatch(text):
        unlabelled = "dependencies"
    name = meaning(match[1]) if match else None
    if match is None or (name is None and unlabelled):
        return Entry(line=block.line, label="", name=unlabelled, text=text)
    return Entry(line=block.line, label=match[1], name=name, text=match[2])


def _batch_entry(block: Block, text: str) -> Entry:
    """`micro_batchsize, LBS for short, ..., 1 by default`; the first comma, colon, `=` or `is` ends the label."""
    here = _HERE.match(text)
    before = here.end() if here else 0
    match = _BATCH.fullmatch(text, before)
    if match is None:
        return Entry(line=block.line, label="", name=None, text=text)
    return Entry(line=block.line, label=text[:before] + match[1], name=meaning(match[1]), text=match[2])


def section_again(section: Section) -> Section:
    """A section with the meaning of its labels determined again from their text."""
    entries = (replace(entry, name=_name_again(entry, section.kind)) for entry in section.entries)
    return replace(section, entries=tuple(entries))


def _name_again(entry: Entry, kind: SectionKind) -> str | None:
    if kind == "general":
        return _general_name(entry.label, entry.text)
    if not entry.label:
        return entry.name
    here = _HERE.match(entry.label) if kind == "batch" else None
    return meaning(entry.label[here.end() if here else 0 :])


def _enter_table(block: Block, place: _Place, result: Contents) -> None:
    (line, headers), *rows = block.rows
    columns = with_units(_columns(headers), [cells for _, cells in rows])
    table = Table(
        line=line,
        heading=place.heading_of_tables,
        kind=_table_kind(columns, place.heading_of_tables, [cells for _, cells in rows]),
        columns=columns,
        rows=tuple(TableRow(line=number, cells=cells) for number, cells in rows),
    )
    result.tables.append(table)
    width = len(columns)
    for row in table.rows:
        if any(row.cells[width:]):
            surplus = " | ".join(row.cells[width:])
            result.missing(row.line, surplus, f"expected {width} cells, found {len(row.cells)}")
    if table.kind == "performance":
        for column in columns:
            repeated = column_meaning(column.header) if column.name is None else None
            if repeated is not None:
                reason = f"expected one column of {repeated}; this one is not read as that"
                result.missing(line, column.header, reason)
    elif table.kind == "other":
        inference = _is_inference(columns, table.heading, [row.cells for row in table.rows])
        expected = "training results, found inference" if inference else "general metrics or of results"
        result.missing(line, " | ".join(headers), f"expected a table of {expected}; its cells are kept")
    else:
        entries = tuple(_general_entries(table, result))
        result.sections.append(Section(line=place.line, heading=place.heading, kind="general", entries=entries))


def _columns(headers: Sequence[str]) -> tuple[Column, ...]:
    """The columns by their headers. Only evaluations and throughput may have several columns of one meaning."""
    seen: set[str] = set()
    columns = []
    for header in headers:
        name = column_meaning(header)
        name = _COLUMN_NAMES.get(name or "", name)
        if name in seen and name not in ("evaluation", "throughput"):
            name = None
        seen.add(name or "")
        columns.append(Column(header=header, name=name))
    return tuple(columns)


def _table_kind(columns: Sequence[Column], above: str, rows: Sequence[Sequence[str]]) -> TableKind:
    """The kind of a table by its columns, and by its heading where the columns leave it open."""
    names, heading = {column.name for column in columns if column.name}, heading_kind(above)
    if {"item", "value"} <= names or (heading == "general" and len(columns) in (2, 3)):
        return "general"
    trained = (SPEEDS | {"loss"}) & names or ("memory" in names and {"fix_hp", "config_name"} & names)
    if not trained or _is_inference(columns, above, rows):
        return "other"  # accuracies, the memory of devices
    figures = len(FIGURES & names)
    settings = (SETTINGS | set(OTHER_DEGREES)) & names if SPEEDS & names else frozenset()
    if figures and (figures >= 2 or CIRCUMSTANCES & names or settings or heading == "performance"):
        return "performance"
    return "other"


def is_inference(table: Table) -> bool:
    """Check whether a table is on inference."""
    return _is_inference(table.columns, table.heading, [row.cells for row in table.rows])


def _is_inference(columns: Sequence[Column], above: str, rows: Sequence[Sequence[str]]) -> bool:
    """Check whether the heading, a column or a row says that a table is on inference."""
    served = any(header_names_inference(column.header) for column in columns)
    return served or names_inference(above) or any(map(row_names_inference, rows))


def table_again(table: Table) -> Table:
    """A table with its kind and the meaning of its columns determined again from its text."""
    headers = [column.header for column in table.columns]
    columns = with_units(_columns(headers), [row.cells for row in table.rows])
    return replace(table, columns=columns, kind=_table_kind(columns, table.heading, [row.cells for row in table.rows]))


def _general_entries(table: Table, result: Contents) -> list[Entry]:
    """The rows of the general table as entries; rows with an unknown label are recorded."""
    places = {column.name: index for index, column in enumerate(table.columns) if column.name}
    item, value = places.get("item", 0), places.get("value", 1)
    remark = places.get("remark", next((index for index in range(3) if index not in (item, value)), 2))
    entries = []
    for row in table.rows:
        cells = [*map(plain, row.cells), *[""] * 3]
        label, text, note = cells[item], cells[value], cells[remark] if remark < len(row.cells) else ""
        entry = Entry(line=row.line, label=label, name=_general_name(label, text), text=text, remark=note)
        entries.append(entry)
        if entry.name is None and any(cells):
            reason = "expected a known general metric; its cells are kept"
            result.missing(row.line, " | ".join(row.cells), reason)
    return entries


def _general_name(label: str, text: str) -> str | None:
    """A general metric by its label. `fix_hp` and `parallel` share the label `changes`; the text distinguishes them."""
    name = column_meaning(label)
    if name == "changes":
        column = meaning(text)
        return column if column in ("parallel", "fix_hp") else name
    return name
