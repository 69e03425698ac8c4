"""Results wherever they are: in folders, in files, and in archives of `llmperf pack`, also in archives in folders."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from llmperf.errors import UserError
from llmperf.plugins.loading import Plugins
from llmperf.reporting.reported_documents import document_path, no_plugins, read_sheets
from llmperf.results.curves import StepFigures, curve_figures, recorded_figures
from llmperf.runfolder.filenames import PLAN, record_files
from llmperf.submissions.archives import SUFFIXES, unpacked
from llmperf.submissions.check import manifest_findings
from llmperf.types import Curves, OpenedSheet, Result, Row, Sheet
from llmperf.types.texts import changed

Signature = Callable[[Path, Path], Row]
"""A row on the signature of a result or of the archive that it came in."""


def opened_results(
    paths: Sequence[Path], warn: Callable[[str], None], *, signature: Signature | None = None
) -> list[OpenedSheet]:
    """The sheets of all runs and imported rows at some paths. Archives are unpacked one at a time, and are gone then.

    `published` names the rows that ship with llmperf, unless there is a file or folder of that name.

    Findings are made here, those that a document lists are not trusted. `warn` is called with a line for each file and
    archive of a folder that cannot be used. UserError for a path that cannot be read, and for one with nothing.

    Results in archives have the row that `signature` makes of the result's file and the archive: who signed them.
    """
    return [opened for path in paths for opened in _opened(document_path(str(path)), warn, signature)]


def report_sheets(paths: Sequence[Path], warn: Callable[[str], None]) -> tuple[list[OpenedSheet], Plugins]:
    """The sheets of all runs and imported rows at some paths, archives among them, and the plugins they name.

    `warn` and errors as of `opened_results`; an archive has to be named itself, and loads no plugin that it names.
    """
    archives = [path for path in paths if is_archive(path)]
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
            run = (stack.enter_context(unpacked(opened.archive)) / opened.member).parent
        recorded = (run / PLAN).is_file() and record_files(run)
        return tuple(recorded_figures(run) if recorded else curve_figures(result))


def is_archive(path: Path) -> bool:
    """Check whether a path is a file with the name of an archive."""
    return path.name.lower().endswith(SUFFIXES) and path.is_file()


def _opened(path: Path, warn: Callable[[str], None], signature: Signature | None) -> list[OpenedSheet]:
    named = is_archive(path)
    archives = [path] if named else list(_archives(path))
    opened = [] if named else _in_folder(path, bool(archives), warn)
    for archive in archives:
        try:
            opened += _in_archive(archive, warn, signature)
        except UserError as error:
            if named:
                raise
            warn(f"left out: {error}")
    if not opened:
        raise UserError(f"{path}: expected results, imported documents or archives of them, found none")
    return opened


def _archives(path: Path) -> Iterator[Path]:
    """Archives below a folder, by name; links and hidden folders are skipped."""
    for parent, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            file = Path(parent, name)
            if name.lower().endswith(SUFFIXES) and stat.S_ISREG(file.lstat().st_mode):
                yield file


def _in_folder(path: Path, has_archives: bool, warn: Callable[[str], None]) -> list[OpenedSheet]:
    try:
        sheets, _ = read_sheets([path], lambda error: warn(f"left out: {error}"))
    except UserError:
        if has_archives:  # and nothing else, which is fine
            return []
        raise
    return [_of_file(sheet) for sheet in sheets]


def _of_file(sheet: Sheet) -> OpenedSheet:
    return OpenedSheet(sheet=sheet, file=str(sheet.source.path), recorded=_recorded(sheet.source.path))


def _in_archive(archive: Path, warn: Callable[[str], None], signature: Signature | None) -> list[OpenedSheet]:
    """The sheets of an archive whose files are those of its manifest; no text names the folder it is unpacked to."""
    with unpacked(archive) as folder:

        def named(text: str) -> str:
            return text.replace(str(folder), str(archive))

        for finding in manifest_findings(folder):
            if finding.severity == "error":
                raise UserError(f"{archive}: {finding.code} {finding.message}")
        try:
            sheets, _ = read_sheets([folder], lambda error: warn(f"left out: {named(str(error))}"))
        except UserError as error:
            raise UserError(named(str(error))) from None

        def detached(sheet: Sheet) -> OpenedSheet:
            path = sheet.source.path
            findings = tuple(replace(finding, message=changed(finding.message, named)) for finding in sheet.findings)
            overview = sheet.overview
            if signature is not None and isinstance(sheet.source.document, Result):
                overview = (*overview, signature(path, archive))
            return OpenedSheet(
                sheet=replace(sheet, findings=findings, curves=_kept(sheet), overview=overview),
                file=named(str(path)),
                recorded=_recorded(path),
                archive=archive,
                member=path.relative_to(folder),
            )

        return [detached(sheet) for sheet in sheets]


def _kept(sheet: Sheet) -> Callable[[], Curves | None] | None:
    """The curves of a sheet, which do not read its files any more."""
    if sheet.curves is None:
        return None
    curves = sheet.curves()
    return lambda: curves


def _recorded(path: Path) -> bool:
    return bool(record_files(path.parent))
