"""The structure of a document: sections with labelled entries, tables by the meaning of their columns, notes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

from llmperf_published.reading import vocabulary
from llmperf_published.reading.markdown import Block, normal, plain
from llmperf_published.reading.numbers import figure
from llmperf_published.reading.profile import fitting
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
CIRCUMSTANCES = {"configuration", "fix_hp", "parallel", "config_name", "precision", "device", "machine", "model"}
CIRCUMSTANCES |= {*vocabulary.COUNTS}
"""Columns that describe the machine or the settings of a row."""
SHARES = ("mfu", "hfu")
"""Columns of shares, printed as percent or as fractions of 1."""
MAX_SHARE = 2.0
"""A share above this is percent: even half of the right peak does not give more."""
SPEEDS = frozenset(["throughput", "mfu", "hfu", "flops"])
"""Figures of training, which make a table one of results with any setting beside them."""

_COLUMN_NAMES = {"changes": "fix_hp", "accelerator": "device"}
"""Meanings of labels that have another name as columns."""
_LABELLED = re.compile(r"([^:：\n]{1,60}?)\s*[:：]\s*(.*)", re.DOTALL)
_BATCH = re.compile(r"([^,，:：=]{1,80}?)\s*(?:恒等于|等于|[,，:：=]|\s(?:equals|is always|is)\s)\s*(.*)", re.DOTALL)
_REMARK = re.compile(r"(?:注意?|备注|值得注意的是|notes?|remarks?)\s*[:：,，]", re.IGNORECASE)
"""The beginning of a remark among the entries of a section."""
_PACKAGE = re.compile(r"[\w.\-]+\s*==\s*[\w.\-+]+")
_HERE = re.compile(r"(?:(?:在)?本case中\s*[,，]\s*|in this case\s*,\s*)?", re.IGNORECASE)
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

    def entries(self, kind: SectionKind, *names: str) -> list[Entry]:
        """The entries of all sections of a kind, or those of these names."""
        entries = (entry for section in self.sections if section.kind == kind for entry in section.entries)
        return [entry for entry in entries if not names or entry.name in names]

    def text(self, kind: SectionKind, name: str) -> str | None:
        """The text of the first entry of that name."""
        return next((entry.text for entry in self.entries(kind, name)), None)

    def words(self, kind: SectionKind) -> str:
        """The text of all sections of a kind in lower case."""
        return normal(" ".join(entry.text for entry in self.entries(kind))).lower()

    def missing(self, line: int, text: str, reason: str) -> None:
        """Record something that was not understood."""
        self.unread.append(Unread(line=line, text=text, reason=reason))


def contents(blocks: Sequence[Block], titles: Mapping[str, str]) -> Contents:
    """Sort the blocks of a document into its parts; `titles` are those that a profile gives to squeezed headers."""
    result = Contents()
    line, heading, kind = 1, "", None
    entries: list[Entry] = []
    inference: tuple[int, str] | None = None  # level and text of a heading that everything below it is on inference

    def close() -> None:
        """Add the section that ends here; a heading without entries below it is no section."""
        if entries and kind in get_args(SectionKind):
            result.sections.append(Section(line=line, heading=heading, kind=kind, entries=tuple(entries)))  # type: ignore[arg-type]

    for block in blocks:
        if block.kind == "heading" or (block.kind in ("item", "text") and vocabulary.is_bullet_heading(block.text)):
            close()
            line, heading, kind, entries = block.line, plain(block.text), vocabulary.heading_kind(block.text), []
            result.headings.append(Note(line=line, text=heading))
            if kind == "title" or not result.title:
                result.title = heading
            if kind is None:
                result.missing(line, heading, "expected a known heading")
            if inference is not None and block.kind == "heading" and block.level <= inference[0]:
                inference = None
            if vocabulary.names_inference(block.text):
                inference = inference or (block.level, heading)
        elif block.kind == "table":
            above = f"{inference[1]}: {heading}" if inference and inference[1] != heading else heading
            _enter_table(block, above, Section(line=line, heading=heading, kind="general", entries=()), result, titles)
        elif kind in get_args(SectionKind) and kind != "general" and block.kind in ("item", "text"):
            text = plain(" ".join(block.text.split()))
            if _REMARK.match(text):
                result.notes.append(Note(line=block.line, text=block.text))
                continue
            entry = _entry(block.line, text, kind)
            entries.append(entry)
            if entry.name is None:
                expected = "a known label" if entry.label else "a label"
                result.missing(block.line, text, f"expected {expected} ({kind})")
        elif block.kind == "code" and kind != "notes":
            result.missing(block.line, block.text, "expected no code here")
        elif block.kind == "item" and kind in (None, "environment", "title"):
            result.missing(block.line, plain(" ".join(block.text.split())), "expected a known heading above it")
        elif block.text:
            result.notes.append(Note(line=block.line, text=block.text))
    close()
    return result


def _entry(line: int, text: str, kind: vocabulary.HeadingKind | None) -> Entry:
    """`label: text`; in a strategy, a line without a known label is all text.

    In `micro_batchsize, LBS for short, ..., 1 by default` the first comma, colon, `=` or `is` ends the label.
    """
    if kind == "batch":
        here = _HERE.match(text)
        before = here.end() if here else 0
        match, unlabelled = _BATCH.fullmatch(text, before), None
    else:
        before, match, unlabelled = 0, _LABELLED.fullmatch(text), _UNLABELLED.get(kind or "")
        if kind == "software" and _PACKAGE.fullmatch(text):
            unlabelled = "dependencies"
    name = vocabulary.meaning(match[1]) if match else None
    if match is None or (name is None and unlabelled):
        return Entry(line=line, label="", name=unlabelled, text=text)
    return Entry(line=line, label=text[:before] + match[1], name=name, text=match[2])


def section_again(section: Section) -> Section:
    """A section with the meaning of its labels determined again from their text."""

    entries = []
    for entry in section.entries:
        name = entry.name
        if section.kind == "general":
            name = _general_name(entry.label, entry.text)
        elif entry.label:
            name = vocabulary.meaning(_HERE.sub("", entry.label, count=1) if section.kind == "batch" else entry.label)
        entries.append(replace(entry, name=name))
    return replace(section, entries=tuple(entries))


def _enter_table(block: Block, above: str, general: Section, result: Contents, titles: Mapping[str, str]) -> None:
    """Add a table below a heading; one of general metrics is a section too, for which `general` has the place."""
    (line, headers), *rows = block.rows
    table = _table(line, above, headers, [TableRow(line=number, cells=cells) for number, cells in rows], titles)
    result.tables.append(table)
    width = len(headers)
    for row in table.rows:
        if any(row.cells[width:]):
            surplus = " | ".join(row.cells[width:])
            result.missing(row.line, surplus, f"expected {width} cells, found {len(row.cells)}")
    if table.kind == "general":
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
        result.sections.append(replace(general, entries=tuple(entries)))
    elif table.kind == "other":
        found = "training results, found inference" if vocabulary.is_on_inference(table) else None
        expected = found or "general metrics or of results"
        result.missing(line, " | ".join(headers), f"expected a table of {expected}; its cells are kept")
    for column in table.columns if table.kind == "performance" else ():
        if column.name is None and (repeated := vocabulary.column_meaning(column.title)) is not None:
            reason = f"expected one column of {repeated}; this one is not read as that"
            result.missing(line, column.header, reason)


def _table(
    line: int, heading: str, headers: Sequence[str], rows: Sequence[TableRow], titles: Mapping[str, str]
) -> Table:
    """A table with the meaning of its columns and its kind, by its columns, and where they leave it open its heading.

    Only evaluations and throughput may have several columns of one meaning.
    """
    if not titles and (profile := fitting(frozenset(map(vocabulary.squeezed, headers)))) is not None:
        titles = profile.titles
    seen: set[str | None] = set()
    columns = []
    for header in headers:
        read_as = titles.get(vocabulary.squeezed(header))
        name = vocabulary.column_meaning(header if read_as is None else read_as)
        name = _COLUMN_NAMES.get(name or "", name)
        name = None if name in seen and name not in ("evaluation", "throughput") else name
        seen.add(name)
        columns.append(Column(header=header, name=name, read_as=read_as))
    with_kind = Table(
        line=line,
        heading=heading,
        kind="other",
        columns=with_units(columns, [row.cells for row in rows]),
        rows=tuple(rows),
    )
    return replace(with_kind, kind=_table_kind(with_kind))


def _table_kind(table: Table) -> TableKind:
    names, heading = {column.name for column in table.columns if column.name}, vocabulary.heading_kind(table.heading)
    if {"item", "value"} <= names or (heading == "general" and len(table.columns) in (2, 3)):
        return "general"
    trained = (SPEEDS | {"loss"}) & names or ("memory" in names and {"fix_hp", "config_name"} & names)
    if not trained or vocabulary.is_on_inference(table):
        return "other"  # accuracies, the memory of devices
    figures = len(FIGURES & names)
    settings = (vocabulary.SETTINGS | set(vocabulary.OTHER_DEGREES)) & names if SPEEDS & names else frozenset()
    profiled = any(column.read_as for column in table.columns)
    described = profiled or figures >= 2 or CIRCUMSTANCES & names or settings or heading == "performance"
    return "performance" if figures and described else "other"


def table_again(table: Table) -> Table:
    """A table with its kind and the meaning of its columns determined again from its text."""
    titles = {vocabulary.squeezed(column.header): column.read_as for column in table.columns if column.read_as}
    headers = [column.header for column in table.columns]
    return _table(table.line, table.heading, headers, table.rows, titles or {"no header": ""})


def _general_name(label: str, text: str) -> str | None:
    """A general metric by its label. `fix_hp` and `parallel` share the label `changes`; the text distinguishes them."""
    name = vocabulary.column_meaning(label)
    if name == "changes":
        column = vocabulary.meaning(text)
        return column if column in ("parallel", "fix_hp") else name
    return name


def with_units(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> tuple[Column, ...]:
    """The columns; those of shares are percent if one of their figures without a unit is above `MAX_SHARE`."""
    result = []
    for index, column in enumerate(columns):
        cells = (row[index] for row in rows if index < len(row) and column.name in SHARES)
        shares = (figure(plain(cell), plain(column.title)) for cell in cells)
        values = (share.value or 0.0 for share in shares if share and share.unit is None and share.expression is None)
        result.append(replace(column, unit="percent") if max(values, default=0.0) > MAX_SHARE else column)
    return tuple(result)
