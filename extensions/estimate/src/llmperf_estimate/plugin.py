"""llmperf extension `estimate`: the check of every plan, and the documents of `llmperf estimate --json`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import DocumentKind, Plan, PlanCheck


@hookimpl
def llmperf_plan_checks(plan: Plan) -> Iterator[PlanCheck]:
    """Estimated memory and step time; a problem or a note if the memory does not suffice."""
    from llmperf_estimate.checks import plan_checks

    yield from plan_checks(plan)


@hookimpl
def llmperf_document_kinds() -> Iterable[DocumentKind]:
    """Estimates."""
    import re
    from importlib import import_module

    import llmperf_schemas
    from llmperf.types import DocumentKind

    return [
        DocumentKind(
            name="estimate",
            title="an estimate",
            suffixes=(".json",),
            # JSON Schemas name the schema in examples too
            recognise=lambda path, beginning, named: (
                re.search(r'"schema"\s*:\s*"llmperf/estimate/', beginning()) is not None
                and '"$schema"' not in beginning()
            ),
            schema=lambda: llmperf_schemas.load("estimate"),
            type=lambda: import_module("llmperf_estimate.types").Estimate,
            sheets=lambda *estimate: import_module("llmperf_estimate.sheets").estimate_sheets(*estimate),
        )
    ]
