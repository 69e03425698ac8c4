"""Import of files and folders: each document into a folder of its own, all of them or none."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from errno import EACCES
from pathlib import Path
from typing import TYPE_CHECKING

from llmperf import MAX_DOCUMENT_BYTES, encode_pretty, open_regular, read_bytes, write_bytes
from llmperf.errors import UserError

from llmperf_published.reading.document import MAX_BYTES, import_document
from llmperf_published.reading.library_match import Known
from llmperf_published.reading.markdown import plain
from llmperf_published.reading.vocabulary import is_on_inference, names_inference
from llmperf_published.types.document import Published
from llmperf_published.types.row import OwnFacts

if TYPE_CHECKING:
    from llmperf import Library

MAX_NAMED = 5
"""Tables, and columns of each, that a refusal names."""
NAME = "published.json"
"""The name of an imported document's file."""
SUFFIXES = (".md", ".markdown")
"""Suffixes of the files that are read in a folder."""
MAX_FILES = 20_000
"""Markdown files of one folder."""
_INDEXES = ("readme", "index")
"""File names that say nothing of their content: such a document is called by its folder."""
_THROUGHPUT = re.compile(
    r"tok(?:en)?s?\s*/|tokens? per|throughput|吞吐|mfu|flops? utili[sz]ation|(?<![a-z])t[gp]s(?![a-z])|tflop",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """One imported document."""

    source: Path
    """The Markdown file."""
    target: Path
    """The JSON file."""
    published: Published
    """Content of the document."""


def import_files(
    sources: Sequence[Path],
    out: Path,
    library: Library,
    force: bool = False,
    own: OwnFacts | None = None,
    titles: Mapping[str, str] | None = None,
) -> tuple[Sequence[Imported], Sequence[str], int]:
    """Read documents, and folders of them, and write each to `out/NAME/published.json`, with the user's own facts.

    Returns the documents, a line for each one of a folder that seems to have results and could not be read, and the
    number of those without results.
    UserError, and nothing written, if a document that is named cannot be read or has no results, if no document of a
    folder has any, or if a file exists already and `force` is not set.
    """
    known = replace(Known.of(library).with_own(own), titles=titles or {})
    imported: list[Imported] = []
    skipped: list[str] = []
    without = 0
    for place in places(sources):
        source = place.source
        try:
            if place.in_tree and not has_results(source):
                without += 1
                continue
            published = import_document(read_bytes(source, MAX_BYTES), str(source), known)
            # other documents of a folder may have tables of accuracies
            trained = any(table.kind == "performance" and table.measures_speed for table in published.tables)
            unrelated = place.in_tree and not trained
            headers = [column.header for table in published.tables for column in table.columns]
            if not published.rows or (unrelated and any(map(_THROUGHPUT.search, headers))):
                raise UserError(f"{source}: expected a table of results, found {_tables_text(published)}")
        except UserError as error:
            if not place.in_tree:
                raise
            skipped.append(str(error))
            continue
        if unrelated:
            without += 1
        else:
            imported.append(Imported(source=source, target=out / place.folder / NAME, published=published))
    if not imported:
        folders = ", ".join(str(source) for source in sources)
        more = (f"; {skipped[0]}" if skipped else "") + "; name logs, and folders of TensorBoard events, one by one"
        raise UserError(f"{folders}: expected Markdown with a table of results, found none{more}")
    for target in (document.target for document in imported):
        if target.is_symlink() or target.is_dir():
            raise UserError(f"{target}: expected a regular file or none, found a link or a folder")
        if target.exists() and not force:
            raise UserError(f"{target}: exists already; --force replaces it")
    contents = [_encoded(document) for document in imported]
    for folder in (document.target.parent for document in imported):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not os.access(folder, os.W_OK | os.X_OK):
                raise PermissionError(EACCES, os.strerror(EACCES))
        except OSError as error:
            raise UserError(f"{folder}: cannot create: {error.strerror or error}") from None
    for document, content in zip(imported, contents, strict=True):
        write_bytes(document.target, content)
    return imported, skipped, without


def published_in(sources: Sequence[Path], library: Library) -> Published:
    """One document as it is read without a profile, also without results. UserError for several, or a folder."""
    if len(sources) != 1 or sources[0].is_dir():
        raise UserError(f"{sources[-1]}: expected one file, found {'a folder' if len(sources) == 1 else 'several'}")
    return import_document(read_bytes(sources[0], MAX_BYTES), str(sources[0]), Known.of(library))


def has_results(path: Path) -> bool:
    """Check whether Markdown has a table and mentions throughput or MFU. UserError if it cannot be read."""
    try:
        with open_regular(path) as file:
            text = file.read(MAX_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from error  # the cause tells validate that it is closed
    return ("|" in text or "<table" in text.lower()) and _THROUGHPUT.search(text) is not None


def _encoded(document: Imported) -> bytes:
    """The document as JSON, without indentation if it were too large to be read again. UserError if it still is."""
    content = encode_pretty(document.published)
    if len(content) > MAX_DOCUMENT_BYTES:
        content = encode_pretty(document.published, indent=0)
    if len(content) > MAX_DOCUMENT_BYTES:
        size, limit = (count / 2**20 for count in (len(content), MAX_DOCUMENT_BYTES))
        expected = f"expected a document that needs at most {limit:.0f} MiB as JSON"
        raise UserError(f"{document.source}: {expected}, found {size:.0f} MiB; import it in parts")
    return content


def _tables_text(published: Published) -> str:
    """The tables of a document without results, and which of their columns have no known meaning."""
    if not published.tables:
        return f"no table; of a log, `llmperf watch --propose {published.source.name}` makes a log profile"
    tables = []
    for table in sorted(published.tables, key=lambda table: not table.measures_speed)[:MAX_NAMED]:
        if names_inference(table.heading):
            tables.append(f"line {table.line}: inference, below {table.heading[:60]!r}")
            continue
        if is_on_inference(table):
            tables.append(f"line {table.line}: inference, not training")
            continue
        unknown = [repr(plain(column.header)[:40]) for column in table.columns if column.name is None]
        more = f" and {len(unknown) - MAX_NAMED} more" * (len(unknown) > MAX_NAMED)
        columns = f": columns {', '.join(unknown[:MAX_NAMED])}{more} not understood" if unknown else ""
        tables.append(f"line {table.line}{columns}")
    if further := len(published.tables) - MAX_NAMED:
        tables += [f"and {further} more table{'s' * (further != 1)}"] * (further > 0)
    return f"none among its tables ({'; '.join(tables)})"


@dataclass(frozen=True, slots=True)
class Place:
    """A document, and where it belongs."""

    source: Path
    """The Markdown file."""
    folder: Path
    """Relative to the folder of all imports."""
    in_tree: bool = False
    """It was found in a folder, and not named."""


def places(sources: Sequence[Path]) -> list[Place]:
    """Every document to read, each with a folder of its own. Folders are searched; links in them are not followed.

    Named documents of one name get more of their folders. UserError if a file is named twice, or if a folder cannot be
    read.
    """
    found: list[Place] = []
    for source in sources:
        if source.is_dir():
            for path in _markdown(source):
                inner = path.relative_to(source).parts[:-1] + (() if _is_index(path) else (path.stem,))
                folder = Path(*map(_safe, inner)) if inner else Path(folder_name(path))
                found.append(Place(path, folder, True))
        else:
            found.append(Place(source, Path(folder_name(source))))
    count = Counter(place.folder for place in found)
    whole = [place.source.resolve() for place in found]
    if repeated := next((path for path, times in Counter(whole).items() if times > 1), None):
        raise UserError(f"{repeated}: named twice, itself or as part of a folder")
    top = os.path.commonpath([path.parent.parent for path in whole]) if whole else ""
    result: list[Place] = []
    for place, path in zip(found, whole, strict=True):
        folder, number = place.folder, 2
        if count[folder] > 1 and not place.in_tree:
            parts = path.relative_to(top).parts
            folder = Path(_safe("-".join(parts[:-1] if _is_index(path) else (*parts[:-1], path.stem))))
        while any(folder == other.folder for other in result if count[place.folder] > 1):
            folder, number = place.folder.with_name(f"{place.folder.name}-{number}"), number + 1
        result.append(Place(place.source, folder, place.in_tree))
    return result


def folder_name(source: Path) -> str:
    """The file's name without its suffix; for a README, the name of its folder."""
    path = source.resolve()
    return _safe(path.parent.name if _is_index(path) and path.parent.name else path.stem)


def _is_index(path: Path) -> bool:
    return path.stem.lower() in _INDEXES


def _safe(name: str) -> str:
    return re.sub(r"[^\w.\-]+", "-", name).strip(".-")[:100] or "document"


def _markdown(root: Path) -> Iterator[Path]:
    """The Markdown files of a folder in a fixed order, without hidden files and folders."""
    count, closed = 0, list[OSError]()
    for folder, folders, files in os.walk(root, onerror=closed.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(folder, name)
            if path.suffix.lower() in SUFFIXES and not name.startswith(".") and not path.is_symlink():
                count += 1
                if count > MAX_FILES:
                    raise UserError(f"{root}: more than {MAX_FILES} Markdown files, the most that are read")
                yield path
    for error in closed:
        raise UserError(f"{error.filename}: {error.strerror}")
