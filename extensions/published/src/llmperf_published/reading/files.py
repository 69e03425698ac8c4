"""Import of files: each document into a folder of its own, all of them or none."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from errno import EACCES
from pathlib import Path
from typing import TYPE_CHECKING

from llmperf import encode_pretty, read_bytes, write_bytes
from llmperf.errors import UserError

from llmperf_published.reading.document import MAX_BYTES, import_document
from llmperf_published.reading.library_match import Known
from llmperf_published.reading.markdown import plain
from llmperf_published.types.document import Published

if TYPE_CHECKING:
    from llmperf import Library

MAX_NAMED = 5
"""Tables, and columns of each, that a refusal names."""
NAME = "published.json"
"""The name of an imported document's file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """One imported document."""

    source: Path
    """The Markdown file."""
    target: Path
    """The JSON file."""
    published: Published
    """What the document says."""


def import_files(sources: Sequence[Path], out: Path, library: Library, force: bool = False) -> list[Imported]:
    """Read documents and write each to `out/NAME/published.json`.

    UserError, and nothing written, if a document cannot be read or has no results, if two documents get the same
    folder, or if a file exists already and `force` is not set.
    """
    known = Known.of(library)
    imported = [_imported(source, out, known) for source in sources]
    _check_targets(imported, force)
    _make_folders([document.target.parent for document in imported])
    for document in imported:
        write_bytes(document.target, encode_pretty(document.published))
    return imported


def _imported(source: Path, out: Path, known: Known) -> Imported:
    published = import_document(read_bytes(source, MAX_BYTES), str(source), known)
    if not published.rows:
        raise UserError(f"{source}: expected a table of results, found {_tables_text(published)}")
    return Imported(source=source, target=out / folder_name(source) / NAME, published=published)


def _tables_text(published: Published) -> str:
    """The tables of a document without results, and which of their columns have no known meaning."""
    if not published.tables:
        return "no table"
    tables = []
    for table in published.tables[:MAX_NAMED]:
        unknown = [repr(plain(column.header)[:40]) for column in table.columns if column.name is None]
        more = f" and {len(unknown) - MAX_NAMED} more" * (len(unknown) > MAX_NAMED)
        columns = f": columns {', '.join(unknown[:MAX_NAMED])}{more} not understood" if unknown else ""
        tables.append(f"line {table.line}{columns}")
    return f"none among its tables ({'; '.join(tables)})"


def folder_name(source: Path) -> str:
    """The file's name without its suffix; for a README, the name of its folder."""
    path = source.resolve()
    name = path.parent.name if path.stem.lower() in ("readme", "index") and path.parent.name else path.stem
    return re.sub(r"[^\w.\-]+", "-", name).strip(".-")[:100] or "document"


def _check_targets(imported: Sequence[Imported], force: bool) -> None:
    seen: dict[Path, Path] = {}
    for document in imported:
        source, target = document.source, document.target
        if target in seen:
            raise UserError(f"{source}: {target} is for {seen[target]} too; import one of them to another --out")
        seen[target] = source
        if target.is_symlink() or target.is_dir():
            raise UserError(f"{target}: expected a regular file or none, found a link or a folder")
        if target.exists() and not force:
            raise UserError(f"{target}: exists already; --force replaces it")


def _make_folders(folders: Sequence[Path]) -> None:
    """Make all folders; if one cannot be made or is not writable, remove those that were made."""
    made: list[Path] = []
    try:
        for folder in folders:
            made += reversed([path for path in (folder, *folder.parents) if not path.exists()])
            folder.mkdir(parents=True, exist_ok=True)
            if not os.access(folder, os.W_OK | os.X_OK):
                raise PermissionError(EACCES, os.strerror(EACCES))
    except OSError as error:
        for path in reversed(made):
            with suppress(OSError):
                path.rmdir()
        raise UserError(f"{folder}: cannot create: {error.strerror or error}") from None
