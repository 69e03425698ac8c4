"""Which files are documents and of what kind, and documents read from them for commands that use them."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from llmperf.errors import LlmperfError, UserError
from llmperf.files.json_files import MAX_DOCUMENT_BYTES, convert, open_regular, read_bytes
from llmperf.files.text import printable
from llmperf.plugins.faults import blaming
from llmperf.plugins.own_packages import project_packages, published
from llmperf.runfolder import filenames
from llmperf.runfolder.filenames import RESULT
from llmperf.types import Finding, Result
from llmperf.types.documents import DocumentKind
from llmperf.types.frozen import dataclass
from llmperf.validation.catalogue import Catalogue, open_catalogue
from llmperf.validation.core_kinds import named_schema
from llmperf.validation.reading import Parsed, parse_json
from llmperf.validation.schema import Schema, schema_findings, strict_findings

MAX_FILES = 200_000
"""Files in one folder and below it; more are refused."""
SNIFFED_BYTES = 4096
"""Bytes of a file that are read to recognise its kind."""
MOST_NAME_BYTES = 200
"""Bytes that the name of a schema takes, with its key."""
_NAMED_SCHEMA = re.compile(rb'"schema"\s{0,80}:\s{0,80}"llmperf/[a-z_-]{1,40}/')
_SCHEMA = re.compile(r'"schema"\s*:\s*"llmperf/([a-z_-]{1,40})/')


@dataclass(frozen=True, slots=True)
class Document:
    """A file and its kind."""

    path: Path
    kind: DocumentKind | None
    """None for a file or a folder that cannot be opened, or that no installed package reads."""
    named: bool = False
    """The user gave this path, not a folder above it."""
    why: str = ""
    """The reason why the kind is None."""

    @property
    def refusal(self) -> UserError:
        """The error for a document without a kind."""
        return UserError(f"{self.path}: {self.why}")


def documents_in(path: Path, catalogue: Catalogue) -> Iterator[Document]:
    """The file, or the documents in a folder by name; those that cannot be opened have no kind."""
    count = 0
    closed: list[OSError] = []
    try:
        for file in _regular_files(path, closed.append) if path.is_dir() else ():
            try:
                kind = kind_of(file, catalogue)
                package = missing_reader(file, by_name=False) if kind is None else None
            except OSError as error:
                closed.append(error)
                continue
            if package is not None or (kind is not None and not kind.silent):
                count += 1
                yield Document(file, kind, why=package or "")
        yield from (Document(Path(error.filename), None, why=str(error.strerror)) for error in closed)
        if not path.is_dir():
            yield _named(path, catalogue)
        elif not count and not closed:
            raise UserError(f"{path}: {none_found(catalogue)}")
    except PermissionError as error:
        raise UserError(f"{error.filename}: {error.strerror}") from None


def _named(path: Path, catalogue: Catalogue) -> Document:
    if not path.exists():
        raise UserError(f"{path}: no such file or folder")
    if not path.is_file():
        raise UserError(f"{path}: neither a file nor a folder")
    kind = kind_of(path, catalogue, named=True)
    if kind is not None:
        return Document(path, kind, named=True)
    if path.suffix == ".toml":
        from llmperf.files.user_files import read_toml

        read_toml(path)  # a syntax error says more than that this is no case and no model
    if (package := missing_reader(path, by_name=True)) is not None:
        raise UserError(f"{path}: {package}")
    known = [f"{kind.title} ({', '.join(kind.suffixes)})" for kind in catalogue.kinds.values() if not kind.silent]
    raise UserError(f"{path}: expected {', '.join(known)}")


def missing_reader(path: Path, by_name: bool) -> str | None:
    """The package that reads a document of a kind that no installed package reads; None for any other file."""
    named = _SCHEMA.search(_beginning(path)) if path.suffix == ".json" else None
    for kind, names in project_packages()["documents"].items():
        has_name = path.name.lower().endswith(tuple(names)) and (by_name or kind == "archive")
        if has_name or (named is not None and named[1] == kind):
            return package_of(kind)
    return None


def package_of(kind: str) -> str | None:
    """The package of this project that reads a kind of document, and its install command; None for other kinds."""
    if kind not in project_packages()["documents"]:
        return None
    from llmperf.plugins.mending import install_own

    package = published()["extension", project_packages()["readers"].get(kind, kind)]
    return f"{package} reads {kind} documents; install it with: {install_own(package)}"


def none_found(catalogue: Catalogue) -> str:
    """The message for a folder without documents."""
    kinds = [kind.title for kind in catalogue.kinds.values() if not kind.silent]
    return f"no document in this folder; expected {', '.join(kinds[:-1])} or {kinds[-1]}"


def _regular_files(root: Path, closed: Callable[[OSError], None]) -> Iterator[Path]:
    """Regular files below a folder, no links, hidden folders or runs cut off; `closed` gets what fails."""
    seen = 0
    for folder, folders, names in os.walk(root, onerror=closed):
        cut_off = filenames.UNFINISHED if filenames.MATRIX in names else None
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != cut_off)
        for name in sorted(names):
            seen += 1
            if seen > MAX_FILES:
                raise UserError(f"{root}: more than {MAX_FILES} files; name the folders that matter")
            path = Path(folder, name)
            try:
                regular = stat.S_ISREG(path.lstat().st_mode)
            except OSError as error:
                closed(error)
                continue
            if regular:
                yield path


def kind_of(path: Path, catalogue: Catalogue, named: bool = False) -> DocumentKind | None:
    """The kind of a file by its name and how it begins; None for no known kind. OSError if it cannot be read."""
    failed: list[OSError] = []

    @cache
    def beginning() -> str:
        try:
            return _beginning(path)
        except OSError as error:
            failed.append(error)
            raise

    name = path.name.lower()
    for kind in catalogue.kinds.values():
        if name.endswith(kind.suffixes):
            try:
                with blaming(catalogue.owner_of(kind), "recognise"):
                    recognised = kind.recognise(path, beginning, named)
            except LlmperfError as error:
                recognised = False
                if isinstance(error.__cause__, OSError):
                    failed.append(error.__cause__)
            if failed:
                raise failed[0]
            if recognised:
                return kind
    return None


def _beginning(path: Path) -> str:
    """The beginning of a file; of a JSON file also the first name of a schema in it, wherever it is."""
    with open_regular(path) as file:
        begin = file.read(SNIFFED_BYTES)
        if path.suffix.lower() == ".json" and len(begin) == SNIFFED_BYTES and not _NAMED_SCHEMA.search(begin):
            rest = file.read(MAX_DOCUMENT_BYTES)
            if (named := _NAMED_SCHEMA.search(begin[-MOST_NAME_BYTES:] + rest)) is not None:
                begin += b"\n" + named[0]
    return begin.decode("utf-8", "replace")


MARKDOWN = (".md", ".markdown", ".txt")
"""File names of published documents, which `llmperf import` reads."""


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """A document that was read from a file."""

    kind: DocumentKind
    path: Path
    document: Any


def read_run_result(run: Path) -> Result:
    """The result of a run folder, or in a file, checked against its schema; UserError with the first fault."""
    path = run / RESULT if run.is_dir() else run
    if path.name.lower().endswith((".zip", ".tar.gz", ".tgz")):
        raise UserError(
            f"{path}: expected a result, found an archive: unpack it beside itself (only validate reads it whole)"
        )
    result: Result = _whole(path, parsed(path), named_schema("result"), Result)
    return result


def read_document(kind: DocumentKind, path: Path, catalogue: Catalogue | None = None) -> Any:
    """A document of a kind from its file; UserError with the first thing that is wrong."""
    if kind.name == "result":
        return read_run_result(path)
    if kind.read is None:
        schema = (catalogue or open_catalogue()).schema_of(kind)
        return _whole(path, parsed(path, kind), schema, kind.type and kind.type())
    document = kind.read(path, True)
    if document is None:
        raise UserError(f"{path}: expected {kind.title}, found none")
    return document


def parsed(path: Path, kind: DocumentKind | None = None) -> Parsed:
    """The plain values of a file: those of JSON, unless the kind reads them in its own way."""
    return Parsed(kind.values(path)) if kind and kind.values else parse_json(read_bytes(path), str(path))


def fitted(path: Path, value: Any, schema: Schema | None, type_: type | None) -> tuple[list[Finding], Any]:
    """The departures of plain values from a schema; if there are none, the document of the type that they make."""
    if schema is not None and (findings := schema_findings(schema, value)):
        return findings, None
    try:
        return [], value if type_ is None else convert(value, type_, str(path))
    except UserError:
        if schema is None or not (findings := strict_findings(schema, value)):
            raise
        return findings, None


def _whole(path: Path, values: Parsed, schema: Schema | None, type_: type | None) -> Any:
    """The document of plain values; UserError for the first departure from the schema, if any."""
    findings, document = fitted(path, values.value, schema, type_)
    for finding in findings:
        where = f"{path}:{finding.path}" if finding.path else path
        raise UserError(printable(f"{where}: {finding.message}"))
    return document


def found_documents(
    paths: Sequence[Path], wanted: Callable[[DocumentKind], bool], left_out: Callable[[UserError], None] | None = None
) -> list[ReadDocument]:
    """The documents of the wanted kinds in files and folders; UserError for a path without one, or an unreadable file.

    For an unreadable one in a folder that was given, `left_out` is called with the error instead, if any.
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
            raise UserError(f"{path}: expected {_titles(open_catalogue(), wanted)} in it or below it, found none")
    return documents


def _titles(catalogue: Catalogue, wanted: Callable[[DocumentKind], bool]) -> str:
    """The kinds of document that are wanted: `a result, an estimate or an imported document`."""
    *first, last = [kind.title for kind in catalogue.kinds.values() if wanted(kind)]
    return " or ".join([", ".join(first), last] if first else [last])


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
        hint = "; import it first: llmperf import" if file.suffix in MARKDOWN else ""
        raise UserError(f"{file}: expected {_titles(catalogue, wanted)}, found {kind.title}{hint}")
    known = kind if kind is not None and wanted(kind) else catalogue.kinds["result"]
    yield Document(file, known, named=True)
