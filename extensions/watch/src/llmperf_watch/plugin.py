"""llmperf extension `watch`: the document of a watched program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import DocumentKind, Rule


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
    from llmperf.lazy import late
    from llmperf.validation import json_kind

    sheets = late("llmperf_watch.text:watched_sheets")
    title = "the document of a watched program"
    return [json_kind("watched", title, "llmperf_watch.types:Watched", sheets=sheets)]
