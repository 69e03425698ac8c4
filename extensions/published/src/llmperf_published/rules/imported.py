"""Published documents as validation takes them: from Markdown, computed again from their text, and as fingerprints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from llmperf import read_bytes
from llmperf.types import Fingerprint
from llmperf.validation import installed_vendors, known_library

from llmperf_published.reading.document import MAX_BYTES, import_document, published_of
from llmperf_published.reading.library_match import Known
from llmperf_published.reading.names import frameworks
from llmperf_published.reading.sections import Contents, section_again, table_again
from llmperf_published.types.document import Published, PublishedRow
from llmperf_published.types.row import OwnFacts

_OWN_COLUMNS = ("config_name", "fix_hp")
"""Columns that tables about other matters do not have."""


@cache
def _known() -> Known:
    return Known.of(known_library())


def read_readme(path: Path, named: bool = True) -> Published | None:
    """Published document of a file; None for Markdown without published results.

    UserError for what is no UTF-8 text or too large.
    """
    published = import_document(read_bytes(path, MAX_BYTES), str(path), _known())
    return published if published.rows and (named or _is_published(published)) else None


def _is_published(published: Published) -> bool:
    """Check whether a document has throughput, and describes a machine or has columns of published tables alone."""
    described = any(section.kind in ("hardware", "software") for section in published.sections)
    names = {column.name for table in published.tables if table.kind == "performance" for column in table.columns}
    return "throughput" in names and (described or not names.isdisjoint(_OWN_COLUMNS))


def line_of(published: Published, pointer: str) -> int | None:
    """The source's line that a JSON pointer into the document refers to; None for the whole document."""
    inner: Any = published
    line: int | None = None
    for part in pointer.split("/")[1:]:
        inner = inner[int(part)] if isinstance(inner, tuple) else getattr(inner, part, None)
        line = getattr(inner, "line", line)
    return line


def imported_again(published: Published) -> Published:
    """The document imported again from its headings, sections, cells and remarks, with the cases installed here."""
    contents = Contents(
        title=published.title,
        headings=list(published.headings),
        sections=[section_again(one) for one in published.sections],
        tables=[table_again(one) for one in published.tables],
        notes=list(published.notes),
    )
    again = published_of(contents, published.source, _known().with_own(published.own))
    vendor_known = published.vendor is None or published.vendor in installed_vendors()
    if again.vendor is None and not vendor_known:  # its plugin is not installed here
        again = replace(again, vendor=published.vendor)
    if len(again.rows) != len(published.rows):
        return again
    rows = []
    for row, found in zip(again.rows, published.rows, strict=True):
        known = _beyond_library(row, found, published.own)
        rows.append(known if vendor_known else _on_device_of(known, found))
    return replace(again, rows=tuple(rows))


def _on_device_of(row: PublishedRow, found: PublishedRow) -> PublishedRow:
    """The row with the devices that were found in it with the help of its vendor's plugin."""
    device, model = found.hardware.device, found.hardware.device_model
    return replace(row, hardware=replace(row.hardware, device=device, device_model=model))


def _beyond_library(row: PublishedRow, found: PublishedRow, own: OwnFacts | None) -> PublishedRow:
    """Keep names of models and cases that are not in this library: another library may have them."""
    known = _known().with_own(own)
    if row.framework is None and found.framework not in frameworks():
        row = replace(row, framework=found.framework)
    if row.model is None and found.model not in known.models.values():
        row = replace(row, model=found.model)
    if row.case is None and found.case not in [None, *(one.name for one in known.cases)]:
        row = replace(row, case=found.case, dataset=found.dataset, variant=found.variant, fix_hp=found.fix_hp)
    return row


def fingerprints(published: Published) -> Iterator[Fingerprint]:
    """The printed figures of each row: throughput and at least one more. The same source read twice is one document."""
    for index, row in enumerate(published.rows):
        if (figures := _figures(row)) is not None:
            yield Fingerprint(
                pointer=f"/rows/{index}/metrics",
                figures=("row", *figures),
                identity=f"{published.source.sha256}:{row.line}",
                place=f", line {row.line}",
            )


def _figures(row: PublishedRow) -> list[str] | None:
    metrics = row.metrics
    throughput = metrics.tokens_per_second_per_device or metrics.tokens_per_second
    named = (("loss", metrics.loss), ("mfu", metrics.mfu))
    others = [f"{name} {figure.value:.9g}" for name, figure in named if figure is not None and figure.value is not None]
    if metrics.memory is not None and metrics.memory.used:
        total = metrics.memory.total and metrics.memory.total.value
        others.append(repr(([(part.each.value, part.devices) for part in metrics.memory.used], total)))
    if throughput is None or throughput.value is None or not others:
        return None
    return [f"{throughput.value:.9g}", *others]
