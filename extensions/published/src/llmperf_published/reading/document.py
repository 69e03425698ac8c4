"""One published document: from its bytes to `Published`."""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Literal

from llmperf.errors import UserError
from llmperf_schemas import PUBLISHED_SCHEMA

from llmperf_published.reading.library_match import Known, framework_name
from llmperf_published.reading.machine import CONFIGURATION, configuration_name
from llmperf_published.reading.markdown import CSV, Block, blocks, csv_blocks, normal
from llmperf_published.reading.names import publishing, vendors_named
from llmperf_published.reading.row_settings import batch_defaults, formula, strategy
from llmperf_published.reading.rows import Document, rows
from llmperf_published.reading.sections import Contents, contents
from llmperf_published.reading.settings import stated
from llmperf_published.reading.xlsx import XLSX, xlsx_blocks
from llmperf_published.types.document import Note, Published, PublishedRow, Source
from llmperf_published.types.row import Stated

MAX_BYTES = 2 * 2**20
MAX_LINES = 20_000
MAX_LINE = 10_000
"""Characters of one line."""

_DATASET = re.compile(
    r"(?:数据集|training data|training data ?set|data ?set)\s*(?:为|是|is|:)\s*([A-Za-z][\w\-.]{1,60})", re.IGNORECASE
)


def import_document(data: bytes, name: str, known: Known) -> Published:
    """Published document from a file called `name`. UserError if it is no UTF-8 text or workbook, or too large."""
    if len(data) > MAX_BYTES:
        raise UserError(f"{name}: larger than {MAX_BYTES // 2**20} MiB, the most that is read")
    if name.lower().endswith(XLSX):
        found = xlsx_blocks(data, name)
        count = max((row for block in found for row, _ in block.rows), default=1)
    else:
        found, count = _text_blocks(data, name)
    parts = contents(found, known.titles)
    headings = [section.heading for section in parts.sections]
    headings += [table.heading for table in parts.tables if table.heading]
    texts = headings or [column.header for table in parts.tables for column in table.columns] or [parts.title]
    chinese = 2 * sum(bool(re.search("[\u4e00-\u9fff]", text)) for text in texts)
    language: Literal["en", "zh"] = "zh" if chinese >= (len(texts) if headings else 1) else "en"
    digest = hashlib.sha256(data).hexdigest()
    source = Source(name=PurePath(name).name, sha256=digest, lines=count, language=language)
    return published_of(parts, source, known)


def _text_blocks(data: bytes, name: str) -> tuple[list[Block], int]:
    """The blocks of Markdown or CSV, and the number of its lines."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{name}: not UTF-8 (byte {error.start})") from None
    lines = re.split(r"\r\n|\r|\n", text)
    if "\0" in text:
        raise UserError(f"{name}: expected text, found a zero byte")
    if len(lines) > MAX_LINES:
        raise UserError(f"{name}: more than {MAX_LINES} lines, the most that are read")
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_LINE:
            raise UserError(f"{name}:{number}: longer than {MAX_LINE} characters, the most that are read of a line")
    try:
        return csv_blocks(text, name) if name.endswith(CSV) else blocks(lines), len(lines)
    except csv.Error as error:
        raise UserError(f"{name}: expected CSV, found another text ({error})") from None


def published_of(parts: Contents, source: Source, known: Known) -> Published:
    """Everything that follows from the parts of a document; `parts.unread` gets what is not understood of its rows."""
    datasets = [
        Note(line=entry.line, text=entry.text) for entry in parts.entries("general", "dataset") if stated(entry.text)
    ]
    for note in parts.notes:
        for offset, text in enumerate(note.text.split("\n")):
            named = (match[1].rstrip(".") for match in _DATASET.finditer(normal(text)))
            datasets += [Note(line=note.line + offset, text=name) for name in named]
    document = Document(
        contents=parts,
        defaults=batch_defaults(parts),
        strategy=strategy(parts),
        datasets=datasets,
        framework=framework_name(parts),
        known=known,
    )
    results = tuple(rows(document))
    entries = [entry for section in parts.sections for entry in section.entries]
    matches = ((match, entry) for entry in entries for match in CONFIGURATION.finditer(entry.text[:4000]))
    names = [configuration_name(match[0], entry.line) for match, entry in matches]
    return Published(
        schema=PUBLISHED_SCHEMA,
        provenance="imported",
        title=parts.title,
        headings=tuple(parts.headings),
        source=source,
        vendor=_vendor(parts, results, known.stated, source.name),
        sections=tuple(parts.sections),
        defaults=document.defaults,
        strategy=document.strategy,
        formula=formula(parts),
        configuration_names=tuple(names),
        datasets=tuple(datasets),
        tables=tuple(parts.tables),
        rows=results,
        notes=tuple(parts.notes),
        unread=tuple(sorted(parts.unread, key=lambda unread: unread.line)),
        own=known.own,
    )


def _vendor(parts: Contents, results: Sequence[PublishedRow], stated: Stated | None, name: str) -> str | None:
    """The vendor that the title names; otherwise the accelerators; otherwise the rows; otherwise the one that alone
    publishes all devices that accelerators and rows name. None if they name several, or none.

    UserError if the importer states another.
    """
    accelerators = [entry.text for entry in parts.entries("hardware", "accelerator")]
    configurations = [row.hardware.configuration or "" for row in results]
    texts = (parts.title, " ".join(accelerators), " ".join(configurations))
    named = [vendors for text in texts if (vendors := vendors_named(text))]
    found = next((vendors[0] for vendors in named if len(vendors) == 1), None)
    if found is None and not named:
        rows = [row.hardware.device or row.hardware.device_model or "" for row in results]
        owners = {vendor for device in {*accelerators, *rows} - {""} for vendor in publishing(device)}
        found = owners.pop() if len(owners) == 1 else None
    if stated is None or stated.vendor is None:
        return found
    if found not in (None, stated.vendor):
        raise UserError(f"{name}: expected rows of {stated.vendor} (--vendor), found devices of {found}")
    return stated.vendor
