"""The hooks of this package: kinds of document with published rows, and the rules over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llmperf

if TYPE_CHECKING:
    from llmperf.types import Baseline, DocumentKind, Finding, Fingerprint, Rule, Section, Sheet, Verdict

    from llmperf_published.types.document import Published

KINDS = ("published", "readme")


@llmperf.hookimpl
def llmperf_rules(kind: str | None) -> Iterable[Rule]:
    """The rules over published documents."""
    if kind not in (None, *KINDS):
        return []
    from llmperf.validation import rules_in

    from llmperf_published.rules import devices, figures, identity, layout, mfu

    return rules_in(devices, figures, identity, layout, mfu)


@llmperf.hookimpl
def llmperf_document_kinds() -> Iterable[DocumentKind]:
    """The document that `llmperf import` writes, and the Markdown that it reads."""
    from llmperf.types import DocumentKind

    return [
        DocumentKind(
            name="published",
            title="an imported document",
            suffixes=(".json",),
            recognise=_is_imported,
            schema=_schema,
            type=_published,
            plugins=_plugins,
            fingerprints=_fingerprints,
            verdicts=_verdicts,
            closing=_closing,
            sheets=_sheets,
            baselines=_baselines,
            shipped=Path(__file__).parent / "data",
            summary=_summary,
        ),
        DocumentKind(
            name="readme",
            title="a table of results (throughput, memory, ...)",
            suffixes=(".md", ".markdown", ".txt"),
            recognise=_is_markdown,
            read=_read_markdown,
            plugins=_plugins,
            fingerprints=_fingerprints,
            line_of=_line_of,
            verdicts=_verdicts,
            closing=_closing,
        ),
    ]


def _is_imported(_: Path, beginning: Callable[[], str], __: bool) -> bool:
    text = beginning()
    return '"llmperf/published/' in text and '"schema"' in text and '"$schema"' not in text


@cache
def _schema() -> Mapping[str, Any]:
    import llmperf_schemas

    return llmperf_schemas.load("published")


def _published() -> type:
    from llmperf_published.types.document import Published

    return Published


def _is_markdown(path: Path, _: Callable[[], str], named: bool) -> bool:
    """Any such file that the user named; in a folder, Markdown with figures in a table."""
    from llmperf_published.reading.files import has_results

    return named or (path.suffix != ".txt" and has_results(path))


def _read_markdown(path: Path, named: bool) -> Published | None:
    from llmperf_published.rules.imported import read_readme

    return read_readme(path, named)


def _plugins(published: Published) -> Iterator[tuple[str, str]]:
    from llmperf_published.rules.vendors import vendors

    yield from (("vendor", name) for name in vendors(published))
    yield from (("framework", name) for name in sorted({row.framework for row in published.rows if row.framework}))


def _fingerprints(published: Published) -> Iterator[Fingerprint]:

    from llmperf_published.rules.imported import fingerprints

    return fingerprints(published)


def _line_of(published: Published, pointer: str) -> int | None:
    from llmperf_published.rules.imported import line_of

    return line_of(published, pointer)


def _verdicts(published: Published, findings: Sequence[Finding]) -> Sequence[Verdict]:
    from llmperf_published.rules.verdicts import verdicts

    return verdicts(published, findings)


def _closing(verdicts: Sequence[Verdict]) -> str:
    from llmperf_published.rules.verdicts import closing

    return closing(verdicts)


def _sheets(published: Published, path: Path, findings: Sequence[Finding]) -> Iterator[Sheet]:
    from llmperf_published.reporting.sheets import published_sheets

    return published_sheets(published, path, findings)


def _baselines(published: Published, path: Path) -> Iterator[Baseline]:
    from llmperf_published.baselines import published_baselines

    return published_baselines(published, path)


def _summary(documents: Sequence[tuple[Path, Published]]) -> Section:
    from llmperf_published.reporting.summary import summary

    return summary(documents)
