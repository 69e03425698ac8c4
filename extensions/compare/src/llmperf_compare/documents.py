"""Results, baselines and summaries at some paths, whatever kinds of document are there; archives below folders too."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from llmperf.errors import UserError
from llmperf.reporting import archive_kind, document_path, ordered, overview_cells, report_sheets, sheets_of
from llmperf.types import Baseline, Result, Row, Section, Sheet
from llmperf.validation import ReadDocument, found_documents

Warn = Callable[[str], None]
Signature = Callable[[Path, Path], Row]
"""A row on the signature of a result or of the archive that it came in."""
SUMMED = {
    "model": "model", "case": "case", "device": "device", "layout": "layout", "status": "status", "run_id": "run",
    "tokens_per_second_per_device": "token/p/s", "mfu_nominal": "MFU (nominal)",
}  # fmt: skip
"""Cells of a summary, and their headers."""


def read_results(path: Path, left_out: Callable[[UserError], None] | None = None) -> tuple[tuple[Path, Result], ...]:
    """The results at a path, each with its file; empty if there are only documents of other kinds."""
    return results_and_others(path, left_out)[0]


def results_and_others(
    path: Path, left_out: Callable[[UserError], None] | None = None
) -> tuple[tuple[tuple[Path, Result], ...], list[ReadDocument]]:
    """Results like those of `read_results`, and the documents of other kinds at the path."""
    documents = found_documents([document_path(str(path))], lambda kind: kind.sheets is not None, left_out)
    results = tuple((read.path, read.document) for read in documents if read.kind.name == "result")
    return results, [read for read in documents if read.kind.name != "result"]


def read_baselines(name: str) -> tuple[str, list[Baseline]]:
    """The figures at a path, or those that the kind of this name ships, and its name; UserError without any."""
    path = document_path(name, shipped_first=True)
    figures: dict[str, list[Baseline]] = {}
    for read in found_documents([path], lambda kind: kind.baselines is not None or kind.sheets is not None):
        if read.kind.baselines is not None:
            figures.setdefault(read.kind.name, []).extend(read.kind.baselines(read.document, read.path))
    first = next((kind for kind, known in figures.items() if known), None)
    if first is None:
        raise UserError(f"{path}: expected imported documents (llmperf import), found none")
    return first, figures[first]


def summaries(paths: Sequence[Path]) -> Iterator[Section]:
    """A summary for each kind of document at some paths, without files that cannot be read."""
    paths = [document_path(str(path)) for path in paths]
    documents = found_documents(paths, lambda kind: kind.summary is not None or kind.sheets is not None, lambda _: None)
    for kind in {read.kind.name: read.kind for read in documents}.values():
        members = [read for read in documents if read.kind.name == kind.name]
        if kind.summary is not None:
            yield kind.summary([(read.path, read.document) for read in members])
        else:
            yield _summary(ordered(sheets_of(members, None)))


def _summary(sheets: Sequence[Sheet]) -> Section:
    """A record for each sheet: its cells in a table of runs, the figures that extensions add included."""
    records = []
    for sheet in sheets:
        (contract,) = overview_cells(sheet, ["contract"])
        added = (row for row in sheet.overview if row.column is not None)
        cells = (replace(sheet.cell(key), label=title) for key, title in SUMMED.items())
        records.append((*cells, *added, Row(key="contract", label="precision, seq_len, batch", value=contract)))
    return Section(key="summary", title="Documents", records=tuple(records))


def opened_results(paths: Sequence[Path], warn: Warn, *, signature: Signature | None = None) -> list[Sheet]:
    """The sheets of all runs and imported rows at some paths, with findings made here; archives are gone then.

    `published` names the rows that ship with llmperf. `warn` gets a line for each file that cannot be used. Results in
    archives have the row of `signature`: who signed them.
    """
    return [opened for path in paths for opened in _opened(document_path(str(path)), warn, signature)]


def _opened(path: Path, warn: Warn, signature: Signature | None) -> list[Sheet]:
    if archive_kind(path) is not None:
        return report_sheets([path], warn, signature)[0]
    archives = []  # below a folder, by name; links and hidden folders are skipped
    for parent, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files = (Path(parent, name) for name in sorted(names))
        archives += [file for file in files if not file.is_symlink() and archive_kind(file) is not None]
    opened = []
    try:
        opened = report_sheets([path], warn)[0]
    except UserError:
        if not archives:
            raise
    for archive in archives:
        try:
            opened += report_sheets([archive], warn, signature)[0]
        except UserError as error:
            warn(f"left out: {error}")
    if not opened:
        raise UserError(f"{path}: expected results, imported documents or archives of them, found none")
    return opened
