"""Files, folders and archives as sheets, whatever kinds of document are in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from llmperf.errors import UserError
from llmperf.plugins.loading import Plugins
from llmperf.runfolder.filenames import record_files
from llmperf.types import DocumentKind, Result, Row, Sheet, Source
from llmperf.types.texts import changed
from llmperf.validation.catalogue import forget_catalogues, open_catalogue
from llmperf.validation.check import Validator
from llmperf.validation.document_files import ReadDocument, found_documents, package_of


def read_sheets(
    paths: Sequence[Path], left_out: Callable[[UserError], None] | None = None
) -> tuple[list[Sheet], Plugins]:
    """The sheets of all documents at some paths, with findings made here, and the plugins that these name."""
    forget_catalogues()  # packages may have been installed since this process looked last
    places = [path if path.exists() else document_path(str(path)) for path in paths]
    documents = found_documents(places, lambda kind: kind.sheets is not None, left_out)
    named = {pair for read in documents if read.kind.plugins for pair in read.kind.plugins(read.document)}
    sheets = sheets_of(documents, left_out)
    if not sheets:
        raise UserError(f"{paths[0]}: expected results or published rows, found documents without rows")
    return sheets, open_catalogue(named).plugins


def sheets_of(documents: Sequence[ReadDocument], left_out: Callable[[UserError], None] | None) -> list[Sheet]:
    """The sheets of documents, with the findings that are made here; those without rows are passed to `left_out`."""
    validator = Validator()
    sheets: list[Sheet] = []
    for kind in {read.kind.name: read.kind for read in documents}.values():
        for read in (read for read in documents if read.kind.name == kind.name):
            file = validator.checked(kind, read.path, read.document)
            rows = list(kind.sheets(read.document, read.path, file.findings)) if kind.sheets else []
            if not rows and left_out is not None:
                left_out(UserError(f"{read.path}: no rows to report"))
            sheets += rows
    return sheets


def document_path(name: str, shipped_first: bool = False) -> Path:
    """The file or folder with this name, or what the kind of this name ships; UserError names its package."""
    forget_catalogues()
    path, kind = Path(name), open_catalogue().kinds.get(name)
    if kind is not None and kind.shipped is not None and (shipped_first or not path.exists()):
        return kind.shipped
    if not path.exists():
        raise UserError(package_of(name) or f"{name}: no such file or folder")
    return path


Warn = Callable[[str], None]
Signature = Callable[[Path, Path], Row]
"""A row on the signature of a result or of the archive that it came in."""


def report_sheets(paths: Sequence[Path], warn: Warn, signature: Signature | None = None) -> tuple[list[Sheet], Plugins]:
    """The sheets of all runs and imported rows at some paths, with findings made here, and the plugins they name.

    `warn` gets a line for each file that cannot be used. An archive has to be named itself, loads no plugin it names,
    and its results have a row with who signed them.
    """
    archives = [path for path in paths if archive_kind(path) is not None]
    others = [path for path in paths if path not in archives]
    sheets, plugins = list[Sheet](), open_catalogue().plugins
    if others:
        sheets, plugins = read_sheets(others, lambda error: warn(f"left out: {error}"))
    return [*sheets, *(each for path in archives for each in _in_archive(path, warn, signature))], plugins


def archive_kind(path: Path) -> DocumentKind | None:
    """The kind of an archive that an installed package unpacks; None for any other path."""
    name = path.name.lower()
    kinds = (kind for kind in open_catalogue().kinds.values() if kind.unpack and name.endswith(kind.suffixes))
    return next(kinds, None) if path.is_file() else None


@contextmanager
def folder_of(source: Source) -> Iterator[Path]:
    """The folder of a document; one in an archive is unpacked again, and is gone after that."""
    if source.archive is None or source.member is None:
        yield source.path.parent
        return
    with _unpacked(source.archive) as folder:
        yield (folder / source.member).parent


def _unpacked(archive: Path) -> AbstractContextManager[Path]:
    kind = archive_kind(archive)
    if kind is None or kind.unpack is None:
        raise UserError(f"{archive}: no such archive any more")
    return kind.unpack(archive)


def _in_archive(archive: Path, warn: Warn, signature: Signature | None) -> list[Sheet]:
    """The sheets of an archive whose files are those that were packed; no text names the folder it is unpacked to."""
    with _unpacked(archive) as folder:

        def named(text: str) -> str:
            return text.replace(str(folder), str(archive))

        try:
            sheets, _ = read_sheets([folder], lambda error: warn(f"left out: {named(str(error))}"))
        except UserError as error:
            raise UserError(named(str(error))) from None

        opened, sources = [], dict[int, Source]()
        for sheet in sheets:
            path, overview, key = sheet.source.path, sheet.overview, id(sheet.source)
            if key not in sources:
                recorded, member = bool(record_files(path.parent)), path.relative_to(folder)
                sources[key] = replace(sheet.source, archive=archive, member=member, recorded=recorded)
            if signature is not None and isinstance(sheet.source.document, Result):
                overview = (*overview, signature(path, archive))
            findings = tuple(replace(finding, message=changed(finding.message, named)) for finding in sheet.findings)
            curves = sheet.curves and partial(lambda read: read, sheet.curves())  # read while the files are there
            opened.append(replace(sheet, findings=findings, curves=curves, overview=overview, source=sources[key]))
        return opened
