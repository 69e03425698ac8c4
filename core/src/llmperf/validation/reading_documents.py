"""Documents from files and folders, checked against their schema, for commands that use them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmperf.errors import UserError
from llmperf.files.json_files import convert, read_bytes
from llmperf.files.text import printable
from llmperf.runfolder.filenames import RESULT
from llmperf.types import Finding, Result
from llmperf.types.documents import DocumentKind
from llmperf.validation.catalogue import Catalogue, open_catalogue
from llmperf.validation.core_kinds import named_schema
from llmperf.validation.finding_files import Document, documents_in, kind_of, missing_reader
from llmperf.validation.reading import parse_json
from llmperf.validation.schema import Schema, schema_findings, strict_findings

MARKDOWN = (".md", ".markdown", ".txt")
"""File names of published documents, which `llmperf import` reads."""


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """A document that was read from a file."""

    kind: DocumentKind
    path: Path
    document: Any


def read_run_result(run: Path) -> Result:
    """The result of a run folder, or in a file; UserError with the first thing that is wrong with it."""
    return read_result(run / RESULT if run.is_dir() else run)


def read_result(path: Path) -> Result:
    """A result from a file, checked against its schema; UserError with the first thing that is wrong."""
    if path.name.lower().endswith((".zip", ".tar.gz", ".tgz")):
        raise UserError(
            f"{path}: expected a result, found an archive: unpack it beside itself (only validate reads it whole)"
        )
    value = parse_json(read_bytes(path), str(path)).value
    result: Result = _converted(value, named_schema("result"), Result, path)
    return result


def read_document(kind: DocumentKind, path: Path, catalogue: Catalogue | None = None) -> Any:
    """A document of a kind from its file; UserError with the first thing that is wrong."""
    if kind.name == "result":
        return read_result(path)
    if kind.read is not None:
        document = kind.read(path, True)
        if document is None:
            raise UserError(f"{path}: expected {kind.title}, found none")
        return document
    value = kind.values(path) if kind.values else parse_json(read_bytes(path), str(path)).value
    schema = (catalogue or open_catalogue()).schema_of(kind)
    return _converted(value, schema, kind.type() if kind.type else None, path)


def _converted(value: Any, schema: Schema | None, type_: type | None, path: Path) -> Any:
    if schema is not None:
        _refuse(path, schema_findings(schema, value))
    if type_ is None:
        return value
    try:
        return convert(value, type_, str(path))
    except UserError:
        _refuse(path, strict_findings(schema, value) if schema is not None else [])
        raise


def _refuse(path: Path, findings: Sequence[Finding]) -> None:
    for finding in findings:
        raise UserError(printable(f"{path}:{finding.path}: {finding.message}"))


def found_documents(
    paths: Sequence[Path],
    wanted: Callable[[DocumentKind], bool],
    left_out: Callable[[UserError], None] | None = None,
) -> list[ReadDocument]:
    """The documents of the wanted kinds in files and folders; UserError for a path where there is none.

    A document that cannot be read is a UserError too. If it is in a folder that was given, `left_out` is called with
    that error instead, if any.
    """
    documents: list[ReadDocument] = []
    for path in paths:
        before = len(documents)
        for file in _files(path, wanted):
            try:
                if file.kind is None:
                    raise file.refusal
                if wanted(file.kind):
                    documents.append(ReadDocument(file.kind, file.path, read_document(file.kind, file.path)))
            except UserError as error:
                if file.named or left_out is None:
                    raise
                left_out(error)
        if before == len(documents):
            from llmperf.results.failure import how_far

            if (why := how_far(path, "the run has not ended or was cut off")) is not None:
                raise UserError(f"{path}: expected {RESULT}, found none: {why}")
            titles = " or ".join(kind.title for kind in open_catalogue().kinds.values() if wanted(kind))
            raise UserError(f"{path}: expected {titles} in it or below it, found none")
    return documents


def _files(path: Path, wanted: Callable[[DocumentKind], bool]) -> Iterator[Document]:
    """The documents of a folder; of a run folder, its result alone; any other file is taken for a result."""
    catalogue = open_catalogue()
    if path.is_dir() and not (path / RESULT).is_file():
        yield from documents_in(path, catalogue)
        return
    if not path.exists():
        raise UserError(f"{path}: no such file or folder")
    file = path / RESULT if path.is_dir() else path
    kind = kind_of(file, catalogue, named=True) if file.is_file() else None
    if kind is None and file.is_file() and (package := missing_reader(file, by_name=True)) is not None:
        raise UserError(f"{file}: {package}")
    if kind is not None and kind.read is not None and not wanted(kind):
        titles = " or ".join(kind.title for kind in catalogue.kinds.values() if wanted(kind))
        hint = "; import it first: llmperf import" if file.suffix in MARKDOWN else ""
        raise UserError(f"{file}: expected {titles}, found {kind.title}{hint}")
    known = kind if kind is not None and wanted(kind) else catalogue.kinds["result"]
    yield Document(file, known, named=True)
