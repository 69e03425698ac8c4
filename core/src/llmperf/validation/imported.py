"""Published documents: Markdown as the rules take it, and an imported document's rows computed again."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from llmperf.cases.library import library
from llmperf.documents import read_bytes
from llmperf.importing.document import MAX_BYTES, import_document
from llmperf.importing.library_match import Known
from llmperf.importing.rows import Document, rows
from llmperf.importing.sections import Contents
from llmperf.importing.settings import batch_defaults, strategy
from llmperf.types.published import Published, PublishedRow


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


def rows_again(published: Published) -> list[PublishedRow]:
    """Every row from sections and tables. What depends on the library of cases is as the document has it."""
    contents = Contents(
        title=published.title,
        headings=list(published.headings),
        sections=list(published.sections),
        tables=list(published.tables),
        notes=list(published.notes),
    )
    document = Document(contents, batch_defaults(contents), strategy(contents), published.datasets, _known())
    again = list(rows(document))
    if len(again) != len(published.rows):
        return again
    return [_with_library_of(one, found) for one, found in zip(again, published.rows, strict=True)]


def _with_library_of(row: PublishedRow, found: PublishedRow) -> PublishedRow:
    """A later library may know a case or a model that an earlier one did not; that is no change of the row."""
    return replace(
        row,
        model=found.model,
        case=found.case,
        framework=found.framework,
        dataset=found.dataset,
        variant=found.variant,
        fix_hp=found.fix_hp,
    )
