"""One result or one imported document from its file, held against its schema."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from llmperf.errors import UserError
from llmperf.files.json_files import convert, read_bytes
from llmperf.runfolder.filenames import RESULT
from llmperf.submissions.archives import is_archive
from llmperf.types import Finding, Result
from llmperf.validation.reading import parse_json, printable
from llmperf.validation.schema import schema_findings, strict_findings

if TYPE_CHECKING:
    from llmperf_published.types.document import Published

T = TypeVar("T")


def read_run_result(run: Path) -> Result:
    """The result of a run folder, or in a file; UserError with the first thing that is wrong with it."""
    return read_result(run / RESULT if run.is_dir() else run)


def read_result(path: Path) -> Result:
    """A result from a file, held against its schema; UserError with the first thing that is wrong."""
    if is_archive(path):
        raise UserError(
            f"{path}: expected a result, found an archive: unpack it (only llmperf validate reads it whole)"
        )
    return _read(path, "result", Result)


def read_published(path: Path) -> Published:
    """An imported document, held against its schema; UserError with the first thing that is wrong."""
    from llmperf_published.types.document import Published

    return _read(path, "published", Published)


def _read(path: Path, name: str, kind: type[T]) -> T:
    value = parse_json(read_bytes(path), str(path)).value
    _refuse(path, schema_findings(name, value))
    try:
        return convert(value, kind, str(path))
    except UserError:
        _refuse(path, strict_findings(name, value))
        raise


def _refuse(path: Path, told: Sequence[Finding]) -> None:
    for one in told:
        raise UserError(printable(f"{path}:{one.path}: {one.message}"))
