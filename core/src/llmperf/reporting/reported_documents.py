"""Files, folders and archives as sheets, baselines and summaries, whatever kinds of document are in them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from llmperf.errors import UserError
from llmperf.plugins.loading import Plugins
from llmperf.results.curves import StepFigures, curve_figures, recorded_figures
from llmperf.runfolder.filenames import PLAN, record_files
from llmperf.types import Baseline, DocumentKind, OpenedSheet, Result, Row, Section, Sheet
from llmperf.types.texts import changed
from llmperf.validation.catalogue import forget_catalogues, open_catalogue
from llmperf.validation.check import Validator
from llmperf.validation.document_files import ReadDocument, found_documents, package_of


def read_sheets(
    paths: Sequence[Path], left_out: Callable[[UserError], None] | None = None
) -> tuple[list[Sheet], Plugins]:
    """The sheets of all documents at some paths, and the plugins that these name.

    Findings are made here: those that a document lists are not trusted. UserError if there is nothing to report, or for
    a file that cannot be read; files in a folder that cannot be read are passed to `left_out`, if given.
    """
    forget_catalogues()  # packages may have been installed since this process looked last
    documents = found_documents(list(map(_shipped, paths)), lambda kind: kind.sheets is not None, left_out)
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


def read_results(path: Path, left_out: Callable[[UserError], None] | None = None) -> tuple[tuple[Path, Result], ...]:
    """The results at a path, each with its file; empty if there are only documents of other kinds.

    `left_out` as for `read_sheets`; without it, a file that cannot be read is an error.
    """
    return results_and_others(path, left_out)[0]


def results_and_others(
    path: Path, left_out: Callable[[UserError], None] | None = None
) -> tuple[tuple[tuple[Path, Result], ...], list[ReadDocument]]:
    """Results like those of `read_results`, and the documents of other kinds at the path."""
    documents = found_documents([_shipped(path)], lambda kind: kind.sheets is not None, left_out)
    results = tuple((read.path, read.document) for read in documents if read.kind.name == "result")
    return results, [read for read in documents if read.kind.name != "result"]


def _shipped(path: Path) -> Path:
    """The path, or the documents that the kind of this name ships where there is no such file or folder."""
    return path if path.exists() else document_path(str(path))


def read_baselines(name: str) -> tuple[str, list[Baseline]]:
    """The figures at a path, or those that the kind of document with this name ships; and the name of the kind.

    UserError if there are none, which names the package that reads such documents where that is not installed.
    """
    path = document_path(name, shipped_first=True)
    figures: dict[str, list[Baseline]] = {}
    for read in found_documents([path], lambda kind: kind.baselines is not None or kind.sheets is not None):
        if read.kind.baselines is not None:
            figures.setdefault(read.kind.name, []).extend(read.kind.baselines(read.document, read.path))
    first = next((kind for kind, known in figures.items() if known), None)
    if first is None:
        raise UserError(f"{path}: expected imported documents (llmperf import), found none")
    return first, figures[first]


def document_path(name: str, shipped_first: bool = False) -> Path:
    """The file or folder with this name, or the documents that the kind with this name ships.

    UserError if there is neither, which names the package that reads such documents where that is not installed.
    """
    forget_catalogues()
    path, kind = Path(name), open_catalogue().kinds.get(name)
    if kind is not None and kind.shipped is not None and (shipped_first or not path.exists()):
        return kind.shipped
    if not path.exists():
        raise UserError(package_of(name) or f"{name}: no such file or folder")
    return path


def summaries(paths: Sequence[Path]) -> Iterator[Section]:
    """A summary for each kind of document at some paths that has one, without files that cannot be read."""
    paths = list(map(_shipped, paths))
    documents = found_documents(paths, lambda kind: kind.summary is not None or kind.sheets is not None, lambda _: None)
    for kind in {read.kind.name: read.kind for read in documents}.values():
        if kind.summary is not None:
            yield kind.summary([(read.path, read.document) for read in documents if read.kind.name == kind.name])


Warn = Callable[[str], None]
Signature = Callable[[Path, Path], Row]
"""A row on the signature of a result or of the archive that it came in."""


def opened_results(paths: Sequence[Path], warn: Warn, *, signature: Signature | None = None) -> list[OpenedSheet]:
    """The sheets of all runs and imported rows at some paths. Archives are unpacked one at a time, and are gone then.

    `published` names the rows that ship with llmperf, unless there is a file or folder of that name.

    Findings are made here, those that a document lists are not trusted. `warn` is called with a line for each file and
    archive of a folder that cannot be used. UserError for a path that cannot be read, and for one with nothing.

    Results in archives have the row that `signature` makes of the result's file and the archive: who signed them.
    """
    return [opened for path in paths for opened in _opened(document_path(str(path)), warn, signature)]


def report_sheets(paths: Sequence[Path], warn: Warn) -> tuple[list[OpenedSheet], Plugins]:
    """The sheets of all runs and imported rows at some paths, archives among them, and the plugins they name.

    `warn` and errors as of `opened_results`; an archive has to be named itself, and loads no plugin that it names.
    """
    archives = [path for path in paths if _archive_kind(path) is not None]
    others = [path for path in paths if path not in archives]
    sheets, plugins = list[Sheet](), open_catalogue().plugins
    if others:
        sheets, plugins = read_sheets(others, lambda error: warn(f"left out: {error}"))
    return [*map(_of_file, sheets), *(each for path in archives for each in _in_archive(path, warn, None))], plugins


def recorded_steps(opened: OpenedSheet) -> tuple[StepFigures, ...]:
    """The steps of a run, from its records; from its loss curve alone where there are none.

    Empty for imported rows. UserError for records that cannot be read. An archive is unpacked for each call.
    """
    result = opened.sheet.source.document
    if not isinstance(result, Result):
        return ()
    with ExitStack() as stack:
        run = opened.sheet.source.path.parent
        if opened.archive is not None and opened.member is not None:
            run = (_unpacked(opened.archive, stack) / opened.member).parent
        recorded = (run / PLAN).is_file() and record_files(run)
        return tuple(recorded_figures(run) if recorded else curve_figures(result))


def _archive_kind(path: Path) -> DocumentKind | None:
    """The kind of an archive that an installed package unpacks; None for any other path."""
    name = path.name.lower()
    kinds = (kind for kind in open_catalogue().kinds.values() if kind.unpack and name.endswith(kind.suffixes))
    return next(kinds, None) if path.is_file() else None


def _unpacked(archive: Path, stack: ExitStack) -> Path:
    kind = _archive_kind(archive)
    if kind is None or kind.unpack is None:
        raise UserError(f"{archive}: no such archive any more")
    return stack.enter_context(kind.unpack(archive))


def _opened(path: Path, warn: Warn, signature: Signature | None) -> list[OpenedSheet]:
    if _archive_kind(path) is not None:
        return _in_archive(path, warn, signature)
    archives = []  # below a folder, by name; links and hidden folders are skipped
    for parent, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files = (Path(parent, name) for name in sorted(names))
        archives += [file for file in files if not file.is_symlink() and _archive_kind(file) is not None]
    opened = []
    try:
        opened = [*map(_of_file, read_sheets([path], lambda error: warn(f"left out: {error}"))[0])]
    except UserError:
        if not archives:
            raise
    for archive in archives:
        try:
            opened += _in_archive(archive, warn, signature)
        except UserError as error:
            warn(f"left out: {error}")
    if not opened:
        raise UserError(f"{path}: expected results, imported documents or archives of them, found none")
    return opened


def _of_file(sheet: Sheet) -> OpenedSheet:
    path = sheet.source.path
    return OpenedSheet(sheet=sheet, file=str(path), recorded=bool(record_files(path.parent)))


def _in_archive(archive: Path, warn: Warn, signature: Signature | None) -> list[OpenedSheet]:
    """The sheets of an archive whose files are those that were packed; no text names the folder it is unpacked to."""
    with ExitStack() as stack:
        folder = _unpacked(archive, stack)

        def named(text: str) -> str:
            return text.replace(str(folder), str(archive))

        try:
            sheets, _ = read_sheets([folder], lambda error: warn(f"left out: {named(str(error))}"))
        except UserError as error:
            raise UserError(named(str(error))) from None

        opened = []
        for sheet in sheets:
            path, overview = sheet.source.path, sheet.overview
            findings = tuple(replace(finding, message=changed(finding.message, named)) for finding in sheet.findings)
            curves = sheet.curves and partial(lambda read: read, sheet.curves())  # read while the files are there
            if signature is not None and isinstance(sheet.source.document, Result):
                overview = (*overview, signature(path, archive))
            kept = replace(sheet, findings=findings, curves=curves, overview=overview)
            file, member = named(str(path)), path.relative_to(folder)
            opened.append(replace(_of_file(sheet), sheet=kept, file=file, archive=archive, member=member))
        return opened
