"""The rules over submissions, and their kinds of document: archives, manifests, and what llmperf wrote into them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from llmperf.hookspecs import hookimpl
from llmperf.runfolder import filenames
from llmperf.submissions.archives import SUFFIXES
from llmperf.submissions.members import MANIFEST, README
from llmperf.types import DocumentKind, FileFindings, Rule


@hookimpl
def llmperf_rules(kind: str | None) -> Iterable[Rule]:
    """The rules that are applied to an archive as a whole."""
    if kind is not None:
        return []
    from llmperf.submissions import check
    from llmperf.validation.violations import rules_in

    return rules_in(check)


@hookimpl
def llmperf_document_kinds() -> Iterable[DocumentKind]:
    """Archives, manifests, and the Markdown that llmperf writes."""
    return [
        DocumentKind(
            name="archive", title="an archive", suffixes=SUFFIXES, recognise=lambda *_: True, judge=_judged_archive
        ),
        DocumentKind(
            name="manifest",
            title="a manifest",
            suffixes=(MANIFEST,),
            recognise=_is_named_manifest,
            judge=_judged_manifest,
        ),
        DocumentKind(name="report", title="a report of llmperf", suffixes=(".md",), recognise=_is_written, silent=True),
    ]


def _judged_archive(path: Path, validator: Any) -> Iterator[FileFindings]:
    from llmperf.submissions.check import judged_archive

    return judged_archive(path, validator)


def _judged_manifest(path: Path, validator: Any) -> Iterator[FileFindings]:
    from llmperf.submissions.check import judged_manifest

    return judged_manifest(path, validator)


def _is_named_manifest(path: Path, beginning: Callable[[], str], named: bool) -> bool:
    return named and path.name == MANIFEST and '"llmperf/manifest/' in beginning()


def _is_written(path: Path, _: Callable[[], str], named: bool) -> bool:
    """Check whether llmperf wrote the file: a report in a run folder, or the README that the results below it give."""
    if named:
        return False
    if path.name == filenames.REPORT:
        return any((path.parent / name).is_file() for name in (filenames.RESULT, filenames.PLAN))
    if path.name != README or not (path.parent / MANIFEST).is_file():
        return False
    from llmperf.submissions.rendered import is_rendered

    return is_rendered(path)
