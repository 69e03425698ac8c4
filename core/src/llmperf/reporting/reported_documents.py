"""Files and folders as sheets, baselines and summaries, whatever kinds of document are in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from llmperf.errors import UserError
from llmperf.plugins.loading import Plugins
from llmperf.types import Baseline, DocumentKind, Result, Section, Sheet
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
    documents = found_documents(list(map(_shipped, paths)), _has_sheets, left_out)
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


def no_plugins() -> Plugins:
    """The plugins without those that documents name: core and the extensions."""
    return open_catalogue().plugins


def _has_sheets(kind: DocumentKind) -> bool:
    return kind.sheets is not None


def read_results(path: Path, left_out: Callable[[UserError], None] | None = None) -> tuple[tuple[Path, Result], ...]:
    """The results at a path, each with its file; empty if there are only documents of other kinds.

    `left_out` as for `read_sheets`; without it, a file that cannot be read is an error.
    """
    return results_and_others(path, left_out)[0]


def results_and_others(
    path: Path, left_out: Callable[[UserError], None] | None = None
) -> tuple[tuple[tuple[Path, Result], ...], list[ReadDocument]]:
    """Results like those of `read_results`, and the documents of other kinds at the path."""
    documents = found_documents([_shipped(path)], _has_sheets, left_out)
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
