"""llmperf extension `watch`: the document of a watched program."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

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
    import re
    from importlib import import_module

    import msgspec
    from llmperf.types import DocumentKind

    def here(module: str) -> Any:
        return import_module(f"llmperf_watch.{module}")

    return [
        DocumentKind(
            name="watched",
            title="the document of a watched program",
            suffixes=(".json",),
            recognise=lambda path, beginning, named: bool(re.search(r'"schema"\s*:\s*"llmperf/watched/', beginning())),
            schema=cache(lambda: msgspec.json.schema(here("types").Watched)),
            type=lambda: here("types").Watched,
            sheets=lambda *document: here("text").watched_sheets(*document),
        )
    ]
