"""Blocks by what stands above them: entries of sections, tables, notes, and what is none of these."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

from llmperf_published.reading.cell_text import normal, plain
from llmperf_published.reading.markdown import Block, in_one_line
from llmperf_published.reading.table_kinds import general_entries, general_name, table_of
from llmperf_published.reading.vocabulary import HeadingKind, column_meaning, heading_kind, is_bullet_heading, meaning
from llmperf_published.types.document import Entry, Note, Section, SectionKind, Table, Unread

_LABELLED = re.compile(r"([^:：\n]{1,60}?)\s*[:：]\s*(.*)", re.DOTALL)
_BATCH = re.compile(r"([^,，:：=]{1,80}?)\s*(?:恒等于|等于|[,，:：=]|\s(?:equals|is always|is)\s)\s*(.*)", re.DOTALL)
_REMARK = re.compile(r"(?:注意?|备注|值得注意的是|notes?|remarks?)\s*[:：,，]", re.IGNORECASE)
"""How a remark among the lines of a section begins."""
_PACKAGE = re.compile(r"[\w.\-]+\s*==\s*[\w.\-+]+")
_HERE = re.compile(r"(?:在)?本case中\s*[,，]\s*|in this case\s*,\s*", re.IGNORECASE)
"""What may stand before a label."""
_UNLABELLED = {"parallelism": "technique", "optimisation": "scheme"}
"""What a line without a label tells of in a section of free text."""


@dataclass
class Contents:
    """A document by its parts."""

    title: str = ""
    headings: list[Note] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)

    def entries(self, kind: SectionKind, name: str) -> list[Entry]:
        """All entries of that name."""
        return [entry for one in self.sections if one.kind == kind for entry in one.entries if entry.name == name]

    def text(self, kind: SectionKind, name: str) -> str | None:
        """What the first of them says."""
        return next((entry.text for entry in self.entries(kind, name)), None)

    def words(self, kind: SectionKind) -> str:
        """All that the sections of a kind say, in small letters."""
        return normal(
            " ".join(entry.text for one in self.sections if one.kind == kind for entry in one.entries)
        ).lower()

    def missing(self, line: int, text: str, reason: str) -> None:
        """Enter something that was not understood."""
        self.unread.append(Unread(line=line, text=text, reason=reason))


@dataclass
class _Place:
    """Where in the document the reader is."""

    line: int = 1
    heading: str = ""
    kind: HeadingKind | None = None
    entries: list[Entry] = field(default_factory=list)


def section_again(section: Section) -> Section:
    """What the labels of a section mean, told again from its text."""
    entries = (replace(one, name=_name_again(one, section.kind)) for one in section.entries)
    return replace(section, entries=tuple(entries))


def _name_again(entry: Entry, kind: SectionKind) -> str | None:
    if kind == "general":
        return general_name(entry.label, entry.text)
    if not entry.label:
        return entry.name
    here = _HERE.match(entry.label) if kind == "batch" else None
    return meaning(entry.label[here.end() if here else 0 :])


def contents(found: Sequence[Block]) -> Contents:
    """Sort the blocks of a document."""
    told, place = Contents(), _Place()
    for block in found:
        bullet = block.kind in ("item", "text") and is_bullet_heading(block.text)
        if block.kind == "heading" or bullet:
            _close(place, told)
            place = _heading(block, told)
        elif block.kind == "table":
            _enter_table(block, place, told)
        elif place.kind in get_args(SectionKind) and place.kind != "general" and block.kind in ("item", "text"):
            _enter_line(block, place, told)
        elif block.kind == "code" and place.kind != "notes":
            told.missing(block.line, block.text, "expected no code here")
        elif block.kind == "item" and place.kind in (None, "environment", "title"):
            told.missing(block.line, plain(in_one_line(block.text)), "expected a known heading above it")
        elif block.text:
            told.notes.append(Note(line=block.line, text=block.text))
    _close(place, told)
    return told


def _heading(block: Block, told: Contents) -> _Place:
    text = plain(block.text)
    kind = heading_kind(block.text)
    told.headings.append(Note(line=block.line, text=text))
    if kind == "title" or not told.title:
        told.title = text
    if kind is None:
        told.missing(block.line, text, "expected a known heading")
    return _Place(line=block.line, heading=text, kind=kind)


def _close(place: _Place, told: Contents) -> None:
    """Enter the section that ends here; headings without anything below them are no sections."""
    for kind in get_args(SectionKind):
        if place.kind == kind and place.entries:
            section = Section(line=place.line, heading=place.heading, kind=kind, entries=tuple(place.entries))
            told.sections.append(section)


def _enter_table(block: Block, place: _Place, told: Contents) -> None:
    table = table_of(block, place.heading, place.kind)
    told.tables.append(table)
    width = len(table.columns)
    for row in table.rows:
        if any(row.cells[width:]):
            surplus = " | ".join(row.cells[width:])
            told.missing(row.line, surplus, f"expected {width} cells, found {len(row.cells)}")
    if table.kind == "performance":
        _tell_second_columns(table, told)
    if table.kind == "other":
        headers = " | ".join(column.header for column in table.columns)
        told.missing(table.line, headers, "expected a table of general metrics or of results; its cells are kept")
    if table.kind == "general":
        entries, unknown = general_entries(table)
        told.unread += unknown
        told.sections.append(
            Section(line=place.line, heading=place.heading, kind="general", entries=tuple(entries))
        )  # fmt: skip


def _tell_second_columns(table: Table, told: Contents) -> None:
    """A column of a meaning that another has already is not read as that."""
    for column in table.columns:
        known = column_meaning(column.header) if column.name is None else None
        if known is not None:
            told.missing(table.line, column.header, f"expected one column of {known}; this one is not read as that")


def _enter_line(block: Block, place: _Place, told: Contents) -> None:
    text = plain(in_one_line(block.text))
    if _REMARK.match(text):
        told.notes.append(Note(line=block.line, text=block.text))
        return
    entry = _batch_entry(block, text) if place.kind == "batch" else _entry(block, text, place.kind)
    place.entries.append(entry)
    if entry.name is None:
        expected = "a known label" if entry.label else "a label"
        told.missing(block.line, text, f"expected {expected} ({place.kind})")


def _entry(block: Block, text: str, kind: HeadingKind | None) -> Entry:
    """`label: text`; without a known label a strategy is all text."""
    found, free = _LABELLED.fullmatch(text), _UNLABELLED.get(kind or "")
    if kind == "software" and _PACKAGE.fullmatch(text):
        free = "dependencies"
    name = meaning(found[1]) if found else None
    if found is None or (name is None and free):
        return Entry(line=block.line, label="", name=free, text=text)
    return Entry(line=block.line, label=found[1], name=name, text=found[2])


def _batch_entry(block: Block, text: str) -> Entry:
    """`micro_batchsize, LBS for short, ..., 1 by default`; the label ends at the first sign or word that says so."""
    here = _HERE.match(text)
    before = here.end() if here else 0
    found = _BATCH.fullmatch(text, before)
    if found is None:
        return Entry(line=block.line, label="", name=None, text=text)
    return Entry(line=block.line, label=text[:before] + found[1], name=meaning(found[1]), text=found[2])
