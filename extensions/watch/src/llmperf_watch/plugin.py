"""llmperf extension `watch`: the document of a watched program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from llmperf import hookimpl

if TYPE_CHECKING:
    from pathlib import Path

    from llmperf.types import DocumentKind, Finding, Rule, Sheet

    from llmperf_watch.types import Watched


@hookimpl
def llmperf_rules(kind: str | None) -> Iterable[Rule]:
    """The rules over these documents."""
    if kind not in (None, "watched"):
        return []
    from llmperf.validation import rules_in

    from llmperf_watch import rules

    return rules_in(rules)


@hookimpl
def llmperf_document_kinds() -> Iterable[DocumentKind]:
    """Documents of `llmperf watch`, of logs that `llmperf import` read, and of `llmperf_watch.meter`."""
    import re

    from llmperf.types import DocumentKind

    return [
        DocumentKind(
            name="watched",
            title="the document of a watched program",
            suffixes=(".json",),
            recognise=lambda path, beginning, named: (
                re.search(r'"schema"\s*:\s*"llmperf/watched/', beginning()) is not None
            ),
            schema=_schema,
            type=_watched,
            sheets=_sheets,
        )
    ]


def _watched() -> type:
    from llmperf_watch.types import Watched

    return Watched


@cache
def _schema() -> dict[str, Any]:
    """The JSON Schema, made from the dataclass."""
    import msgspec

    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(_watched())}


def _sheets(watched: Watched, path: Path, findings: Sequence[Finding]) -> list[Sheet]:
    from llmperf_watch.text import watched_sheets

    return watched_sheets(watched, path, findings)
