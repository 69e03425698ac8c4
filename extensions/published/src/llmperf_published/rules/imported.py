"""Published documents: Markdown as the rules take it, and an imported document computed again from its text."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from llmperf.cases.library import library
from llmperf.files.json_files import read_bytes

from llmperf_published.reading.document import MAX_BYTES, import_document, published_of
from llmperf_published.reading.library_match import Known
from llmperf_published.reading.plugin_names import frameworks, vendor_patterns
from llmperf_published.reading.sections import Contents, section_again, table_again
from llmperf_published.types.document import Published, PublishedRow


@cache
def _known() -> Known:
    return Known.of(library())


def read_readme(path: Path) -> Published:
    """What a published document says; it may have no rows. UserError for what is no UTF-8 text or too large."""
    return import_document(read_bytes(path, MAX_BYTES), str(path), _known())


def line_of(published: Published, pointer: str) -> int | None:
    """The source's line that a JSON pointer into the document stands for; None where it stands for the whole."""
    inner: Any = published
    line: int | None = None
    for part in pointer.split("/")[1:]:
        inner = inner[int(part)] if isinstance(inner, tuple) else getattr(inner, part, None)
        line = getattr(inner, "line", line)
    return line


def imported_again(published: Published) -> Published:
    """What follows from the document's headings, sections, cells and remarks, by the library of cases that is here."""
    contents = Contents(
        title=published.title,
        headings=list(published.headings),
        sections=[section_again(one) for one in published.sections],
        tables=[table_again(one) for one in published.tables],
        notes=list(published.notes),
    )
    again = published_of(contents, published.source, _known())
    vendor_known = published.vendor is None or published.vendor in vendor_patterns()
    if again.vendor is None and not vendor_known:  # its plugin is not installed here
        again = replace(again, vendor=published.vendor)
    if len(again.rows) != len(published.rows):
        return again
    rows = []
    for row, found in zip(again.rows, published.rows, strict=True):
        known = _beyond_library(row, found)
        rows.append(known if vendor_known else _on_device_of(known, found))
    return replace(again, rows=tuple(rows))


def _on_device_of(row: PublishedRow, found: PublishedRow) -> PublishedRow:
    """The row with the devices that were found in it with the help of its vendor's plugin."""
    device, model = found.hardware.device, found.hardware.device_model
    return replace(row, hardware=replace(row.hardware, device=device, device_model=model))


def _beyond_library(row: PublishedRow, found: PublishedRow) -> PublishedRow:
    """What names a model or a case that this library has not got, another one may have: it stands as it is."""
    known = _known()
    if row.framework is None and found.framework not in frameworks():
        row = replace(row, framework=found.framework)
    if row.model is None and found.model not in known.models.values():
        row = replace(row, model=found.model)
    if row.case is None and found.case not in [None, *(one.name for one in known.cases)]:
        row = replace(row, case=found.case, dataset=found.dataset, variant=found.variant, fix_hp=found.fix_hp)
    return row
