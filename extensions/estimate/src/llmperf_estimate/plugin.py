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
    from llmperf.lazy import late
    from llmperf.validation import json_kind

    sheets = late("llmperf_estimate.sheets:estimate_sheets")
    return [json_kind("estimate", "an estimate", "llmperf_estimate.types:Estimate", sheets=sheets)]
