"""Published documents from files to a folder each, all of them or none."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from errno import EACCES
from pathlib import Path

from llmperf.cases.library import Library
from llmperf.errors import UserError
from llmperf.files.json_files import encode_pretty, read_bytes, write_bytes

from llmperf_published.reading.cell_text import plain
from llmperf_published.reading.document import MAX_BYTES, import_document
from llmperf_published.reading.library_match import Known
from llmperf_published.types.document import Published, Table

MAX_NAMED = 5
"""Tables, and columns of each, that a refusal names."""
NAME = "published.json"
"""What a document is written as, in a folder of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """One document that was imported."""

    source: Path
    """Where it was read."""
    target: Path
    """Where it was written."""
    published: Published
    """What it says."""


def import_files(sources: Sequence[Path], out: Path, library: Library, force: bool = False) -> list[Imported]:
    """Read documents and write each to `out/NAME/published.json`.

    UserError, with nothing written, if one cannot be read or has no results, if two would have the same folder, or if
    a file is there already and `force` is not set.
    """
    known = Known.of(library)
    imported = [_imported(source, out, known) for source in sources]
    _check_targets(imported, force)
    _make_folders([one.target.parent for one in imported])
    for one in imported:
        write_bytes(one.target, encode_pretty(one.published))
    return imported


def _make_folders(folders: Sequence[Path]) -> None:
    """Make all of them; where one cannot be made or written to, none of them stays that was not there."""
    made: list[Path] = []
    try:
        for folder in folders:
            made += reversed([one for one in (folder, *folder.parents) if not one.exists()])
            folder.mkdir(parents=True, exist_ok=True)
            if not os.access(folder, os.W_OK | os.X_OK):
                raise PermissionError(EACCES, os.strerror(EACCES))
    except OSError as error:
        for one in reversed(made):
            with suppress(OSError):
                one.rmdir()
        raise UserError(f"{folder}: cannot be made: {error.strerror or error}") from None


def _imported(source: Path, out: Path, known: Known) -> Imported:
    published = import_document(read_bytes(source, MAX_BYTES), str(source), known)
    if not published.rows:
        raise UserError(f"{source}: expected a table of results, found {_found(published)}")
    return Imported(source=source, target=out / folder_name(source) / NAME, published=published)


def _found(published: Published) -> str:
    """What a document without results has, for whoever thought that it had some."""
    if not published.tables:
        return "no table"
    tables = "; ".join(f"line {table.line}{_not_understood(table)}" for table in published.tables[:MAX_NAMED])
    return f"none among its tables ({tables})"


def _not_understood(table: Table) -> str:
    """Which columns of a table have no known meaning."""
    unknown = [repr(plain(column.header)[:40]) for column in table.columns if column.name is None]
    named = ", ".join(unknown[:MAX_NAMED]) + f" and {len(unknown) - MAX_NAMED} more" * (len(unknown) > MAX_NAMED)
    return f": columns {named} not understood" if unknown else ""


def folder_name(source: Path) -> str:
    """The name of the file without its ending; of a README, that of its folder."""
    path = source.resolve()
    name = path.parent.name if path.stem.lower() in ("readme", "index") and path.parent.name else path.stem
    return re.sub(r"[^\w.\-]+", "-", name).strip(".-")[:100] or "document"


def _check_targets(imported: Sequence[Imported], force: bool) -> None:
    seen: dict[Path, Path] = {}
    for one in imported:
        if one.target in seen:
            raise UserError(f"{one.source}: {one.target} is for {seen[one.target]} too; import one of them elsewhere")
        seen[one.target] = one.source
        if one.target.is_symlink() or one.target.is_dir():
            raise UserError(f"{one.target}: expected a regular file or none, found a link or a folder")
        if one.target.exists() and not force:
            raise UserError(f"{one.target}: is there already; --force replaces it")
