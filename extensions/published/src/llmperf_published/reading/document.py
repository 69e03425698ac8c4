"""One published document, from its bytes to what it says."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Literal

from llmperf.errors import UserError
from llmperf_schemas import PUBLISHED_SCHEMA

from llmperf_published.reading.cell_text import has_chinese, normal
from llmperf_published.reading.library_match import Known
from llmperf_published.reading.machine import configuration_names
from llmperf_published.reading.markdown import blocks
from llmperf_published.reading.rows import Document, rows
from llmperf_published.reading.sections import Contents, contents
from llmperf_published.reading.settings import batch_defaults, formula, strategy, told
from llmperf_published.reading.vendors import vendors_named
from llmperf_published.types.document import ConfigurationName, Note, Published, PublishedRow, Source

MAX_BYTES = 2 * 2**20
MAX_LINES = 20_000
MAX_LINE = 10_000
"""Characters."""

_DATASET = re.compile(
    r"(?:数据集|training data|training data ?set|data ?set)\s*(?:为|是|is|:)\s*([A-Za-z][\w\-.]{1,60})", re.IGNORECASE
)


def import_document(data: bytes, name: str, known: Known) -> Published:
    """What a document says; `name` is where it was read. UserError for what is no UTF-8 text or too large."""
    lines = _lines(data, name)
    found = contents(blocks(lines))
    return published_of(found, _source(data, PurePath(name).name, len(lines), found), known)


def published_of(found: Contents, source: Source, known: Known) -> Published:
    """All that follows from the parts of a document; what is not understood of its rows is entered in them."""
    datasets = tuple(_datasets(found))
    document = Document(found, batch_defaults(found), strategy(found), datasets, known)
    results = tuple(rows(document))
    found.unread.sort(key=lambda one: one.line)
    return Published(
        schema=PUBLISHED_SCHEMA,
        provenance="imported",
        title=found.title,
        headings=tuple(found.headings),
        source=source,
        vendor=_vendor(found, results),
        sections=tuple(found.sections),
        defaults=document.defaults,
        strategy=document.strategy,
        formula=formula(found),
        configuration_names=tuple(_configurations(found)),
        datasets=datasets,
        tables=tuple(found.tables),
        rows=results,
        notes=tuple(found.notes),
        unread=tuple(found.unread),
    )


def _lines(data: bytes, name: str) -> list[str]:
    if len(data) > MAX_BYTES:
        raise UserError(f"{name}: larger than the {MAX_BYTES // 2**20} MiB that are read")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{name}: not UTF-8 (byte {error.start})") from None
    lines = re.split(r"\r\n|\r|\n", text)
    if "\0" in text:
        raise UserError(f"{name}: expected text, found a zero byte")
    if len(lines) > MAX_LINES:
        raise UserError(f"{name}: more than the {MAX_LINES} lines that are read")
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_LINE:
            raise UserError(f"{name}:{number}: longer than the {MAX_LINE} characters of a line that are read")
    return lines


def _source(data: bytes, name: str, lines: int, found: Contents) -> Source:
    digest = hashlib.sha256(data).hexdigest()
    return Source(name=name, sha256=digest, lines=lines, language=_language(found))


def _language(found: Contents) -> Literal["en", "zh"]:
    """That of most headings of sections and tables; where there are none, of the columns."""
    headings = [one.heading for one in found.sections] + [one.heading for one in found.tables if one.heading]
    texts = headings or [column.header for table in found.tables for column in table.columns] or [found.title]
    return "zh" if 2 * sum(map(has_chinese, texts)) >= (len(texts) if headings else 1) else "en"


def _vendor(found: Contents, results: Sequence[PublishedRow]) -> str | None:
    """The one vendor that the title names, else the one that the accelerators' names do, else that of the rows."""
    accelerators = [entry.text for entry in found.entries("hardware", "accelerator")]
    configurations = [row.hardware.configuration or "" for row in results]
    for text in (found.title, " ".join(accelerators), " ".join(configurations)):
        named = vendors_named(text)
        if len(named) == 1:
            return named[0]
    return None


def _configurations(found: Contents) -> Iterator[ConfigurationName]:
    """Those that entries name."""
    for section in found.sections:
        for entry in section.entries:
            yield from configuration_names(entry.text, entry.line)


def _datasets(found: Contents) -> Iterator[Note]:
    """The general table's entry, then what remarks say of the training data."""
    for entry in found.entries("general", "dataset"):
        if told(entry.text):
            yield Note(line=entry.line, text=entry.text)
    for note in found.notes:
        for offset, text in enumerate(note.text.split("\n")):
            for one in _DATASET.finditer(normal(text)):
                yield Note(line=note.line + offset, text=one[1].rstrip("."))
