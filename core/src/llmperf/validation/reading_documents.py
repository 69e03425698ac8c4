"""The results and imported documents in files and folders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from llmperf.errors import UserError
from llmperf.runfolder.filenames import RESULT
from llmperf.types import Result
from llmperf.validation.finding_files import Document, Kind, documents_in, kind_of
from llmperf.validation.typed import read_published, read_result

if TYPE_CHECKING:
    from llmperf_published.types.document import Published


def found_results(path: Path) -> list[tuple[Path, Result]]:
    """The result in a file or a run folder, or every result in a folder and below it, each with its file.

    UserError if there is none.
    """
    if not path.is_dir() or (path / RESULT).is_file():
        file = path / RESULT if path.is_dir() else path
        return [(file, read_result(file))]
    found = [(one.path, read_result(one.path)) for one in _readable(path) if one.kind == "result"]
    if not found:
        raise UserError(f"{path}: expected {RESULT} in it or below it, found none")
    return found


def _readable(path: Path) -> Iterator[Document]:
    """The documents at a path; UserError for one that may not be opened."""
    for one in documents_in(path):
        if one.kind == "unread":
            raise one.refusal
        yield one


def found_published(path: Path) -> list[tuple[Path, Published]]:
    """Every imported document in a file or in a folder and below it, each with its file; none where there is none."""
    found = [one.path for one in _readable(path) if one.kind == "published"]
    return [(file, read_published(file)) for file in found]


def found_reportable(
    paths: Sequence[Path], left_out: Callable[[UserError], None] | None = None
) -> tuple[tuple[tuple[Path, Result], ...], tuple[tuple[Path, Published], ...]]:
    """The results and the imported documents at some paths; UserError where there is neither.

    One that cannot be read is a UserError too; where a folder above it was given, `left_out` is told instead, if any.
    """
    results: list[tuple[Path, Result]] = []
    published: list[tuple[Path, Published]] = []
    for path in paths:
        found = len(results) + len(published)
        for one in _reportable(path):
            try:
                if one.kind == "published":
                    published.append((one.path, read_published(one.path)))
                elif one.kind == "unread":
                    raise one.refusal
                elif one.kind == "result":
                    results.append((one.path, read_result(one.path)))
            except UserError as error:
                if one.named or left_out is None:
                    raise
                left_out(error)
        if found == len(results) + len(published):
            from llmperf.results.cut_off import how_far

            if (far := how_far(path)) is not None:
                raise UserError(f"{path}: expected {RESULT}, found none: the run has not ended or was cut off; {far}")
            raise UserError(f"{path}: expected {RESULT} or an imported document in it or below it, found neither")
    return tuple(results), tuple(published)


def _reportable(path: Path) -> Iterator[Document]:
    """The result of a run folder alone; a file that does not say what it is, for a result."""
    if path.is_dir() and not (path / RESULT).is_file():
        yield from documents_in(path)
    else:
        file = path / RESULT if path.is_dir() else path
        kind: Kind = "published" if file.is_file() and kind_of(file) == "published" else "result"
        yield Document(file, kind, named=True)
