"""Results wherever they are: in folders, in files, and in archives that a package unpacks, also in folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from llmperf.errors import UserError
from llmperf.plugins.loading import Plugins
from llmperf.reporting.reported_documents import document_path, no_plugins, read_sheets
from llmperf.results.curves import StepFigures, curve_figures, recorded_figures
from llmperf.runfolder.filenames import PLAN, record_files
from llmperf.types import DocumentKind, OpenedSheet, Result, Row, Sheet
from llmperf.types.texts import changed
from llmperf.validation.catalogue import open_catalogue

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
    sheets, plugins = read_sheets(others, lambda error: warn(f"left out: {error}")) if others else ([], no_plugins())
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
    archives, opened = list(_archives(path)), []
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


def _archives(path: Path) -> Iterator[Path]:
    """Archives below a folder, by name; links and hidden folders are skipped."""
    for parent, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files = (Path(parent, name) for name in sorted(names))
        yield from (file for file in files if not file.is_symlink() and _archive_kind(file) is not None)


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

        def detached(sheet: Sheet) -> OpenedSheet:
            of_file, path = _of_file(sheet), sheet.source.path
            findings = tuple(replace(finding, message=changed(finding.message, named)) for finding in sheet.findings)
            overview, curves = sheet.overview, sheet.curves() if sheet.curves is not None else None
            if signature is not None and isinstance(sheet.source.document, Result):
                overview = (*overview, signature(path, archive))
            kept = replace(
                sheet, findings=findings, curves=None if sheet.curves is None else lambda: curves, overview=overview
            )
            return replace(of_file, sheet=kept, file=named(str(path)), archive=archive, member=path.relative_to(folder))

        return [detached(sheet) for sheet in sheets]
