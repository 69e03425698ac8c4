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
from llmperf_published.reading.library_match import Known, frameworks
from llmperf_published.reading.sections import Contents, section_again, table_again
from llmperf_published.rules.vendors import vendors
from llmperf_published.types.document import Published

_OWN_COLUMNS = ("config_name", "fix_hp")
"""Columns that tables about other matters do not have."""


@cache
def _known() -> Known:
    return Known.of(known_library())


def read_readme(path: Path, named: bool = True) -> Published | None:
    """Published document of a file; None for Markdown without published results.

    In a folder these have throughput, and describe a machine or have columns of published tables alone. UserError for
    what is no UTF-8 text or too large.
    """
    published = import_document(read_bytes(path, MAX_BYTES), str(path), _known())
    names = {column.name for table in published.tables if table.kind == "performance" for column in table.columns}
    described = any(section.kind in ("hardware", "software") for section in published.sections)
    is_published = "throughput" in names and (described or not names.isdisjoint(_OWN_COLUMNS))
    return published if published.rows and (named or is_published) else None


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
    known = _known().with_own(published.own)
    cases = [None, *(case.name for case in known.cases)]
    rows = []
    for row, found in zip(again.rows, published.rows, strict=True):
        # another library may have models and cases that are not in this one
        if row.framework is None and found.framework not in frameworks():
            row = replace(row, framework=found.framework)
        if row.model is None and found.model not in known.models.values():
            row = replace(row, model=found.model)
        if row.case is None and found.case not in cases:
            row = replace(row, case=found.case, dataset=found.dataset, variant=found.variant, fix_hp=found.fix_hp)
        if not vendor_known:  # its plugin found the devices
            named = {name: getattr(found.hardware, name) for name in ("configuration", "device", "device_model")}
            row = replace(row, hardware=replace(row.hardware, **named))
        rows.append(row)
    return replace(again, rows=tuple(rows))


def plugins(published: Published) -> Iterator[tuple[str, str]]:
    """The vendors and frameworks whose plugins a document names."""
    yield from (("vendor", name) for name in vendors(published))
    yield from (("framework", name) for name in sorted({row.framework for row in published.rows if row.framework}))


def fingerprints(published: Published) -> Iterator[Fingerprint]:
    """The printed figures of each row: throughput and at least one more. The same source read twice is one document."""
    for index, row in enumerate(published.rows):
        metrics = row.metrics
        throughput = metrics.tokens_per_second_per_device or metrics.tokens_per_second
        others = [
            f"{name} {figure.value:.9g}" for name, figure in (("loss", metrics.loss), ("mfu", metrics.mfu))
            if figure is not None and figure.value is not None
        ]  # fmt: skip
        if metrics.memory is not None and metrics.memory.used:
            total = metrics.memory.total and metrics.memory.total.value
            others.append(repr(([(part.each.value, part.devices) for part in metrics.memory.used], total)))
        if throughput is not None and throughput.value is not None and others:
            yield Fingerprint(
                pointer=f"/rows/{index}/metrics",
                figures=("row", f"{throughput.value:.9g}", *others),
                identity=f"{published.source.sha256}:{row.line}",
                place=f", line {row.line}",
            )
