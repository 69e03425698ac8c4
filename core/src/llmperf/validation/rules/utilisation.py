"""FLOPs per token, parameters and MFU."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from llmperf.accounting.flops import count_flops, flops_of, workload_of
from llmperf.errors import UserError
from llmperf.types import FlopCount, FlopsPerToken, Result, Text, Violation
from llmperf.validation.plugin_data import extensions
from llmperf.validation.reading import shown
from llmperf.validation.violations import close, deviates, differs, figure, rule, spec_of

if TYPE_CHECKING:
    from llmperf.types import Plan

CORE = "core"
"""The value of `counted_by` for the core's own count."""


@rule("LP301", "error", "MFU is token/p/s x FLOPs per token / peak")
def mfu_follows(result: Result) -> Iterator[Violation]:
    throughput = result.metrics.tokens_per_second_per_device
    for index, mfu in enumerate(result.mfu):
        path = f"/mfu/{index}/value"
        if throughput is not None and (peak := mfu.peak_flops_per_second):
            because = f"{figure(throughput)} x {figure(mfu.flops_per_token)} / {figure(peak)}, {mfu.convention}"
            if mfu.value is not None:
                yield from deviates(path, mfu.value, throughput * mfu.flops_per_token / peak, because)
        elif mfu.value is not None:
            yield path, Text("expected null (no throughput or no peak), found {}", figure(mfu.value))


@rule("LP302", "error", "No device computes faster than its peak")
def mfu_at_most_one(result: Result) -> Iterator[Violation]:
    for index, mfu in enumerate(result.mfu):
        if mfu.value is not None and mfu.value > 1:
            yield f"/mfu/{index}/value", Text("expected at most 1 ({}), found {}", mfu.convention, figure(mfu.value))
            return


@rule("LP303", "error", "FLOPs per token are those of the model", "result", "plan")
def flops_of_the_model(document: Result | Plan) -> Iterator[Violation]:
    if (count := flops_recounted(document)) is None:
        return
    entries = {str(entry.convention): entry for entry in count.per_token}
    for path, field, stated in flops_stated(document):
        if (entry := entries.get(stated.convention)) is None:
            known = ", ".join(entries)
            message = Text("expected one of {} ({}), found {}", known, count.counted_by, stated.convention)
            yield f"{path}/convention", message
            continue
        expected = int(entry.flops) if float(entry.flops).is_integer() else entry.flops
        if not close(stated.flops, expected):
            because = Text("{}: {}", entry.convention, entry.formula)
            yield from deviates(f"{path}/{field}", stated.flops, expected, because)
            continue  # so are the formula, and what it leaves out
        if stated.formula != entry.formula:
            because = Text("{} (counted from the model, {})", shown(entry.formula), entry.convention)
            yield f"{path}/formula", Text("expected {}, found {}", because, shown(stated.formula))
        if stated.leaves_out != entry.leaves_out:
            expected_terms, terms = ("; ".join(each.leaves_out) or Text("nothing") for each in (entry, stated))
            yield f"{path}/leaves_out", Text("expected {}, found {}", shown(expected_terms), shown(terms))


def flops_stated(document: Result | Plan) -> Iterator[tuple[str, str, FlopsPerToken]]:
    """JSON pointer, name of the field with the FLOPs, and count for each FLOPs per token that a document states."""
    if not isinstance(document, Result):
        for index, entry in enumerate(document.flops.per_token):
            yield f"/flops/per_token/{index}", "flops", entry
    else:
        for index, mfu in enumerate(document.mfu):
            count = FlopsPerToken(
                convention=mfu.convention, flops=mfu.flops_per_token, formula=mfu.formula, leaves_out=mfu.leaves_out
            )
            yield f"/mfu/{index}", "flops_per_token", count


@rule("LP304", "error", "Parameters are those of the model", "result", "plan")
def parameters_of_the_model(document: Result | Plan) -> Iterator[Violation]:
    if not isinstance(document, Result):
        path, found = "/flops/parameters", document.flops.parameters
    else:
        path, found = "/parameters", document.parameters
    if (count := flops_recounted(document)) is not None:
        yield from differs(path, found, count.parameters, Text("counted from /model"))


_core_count = lru_cache(maxsize=256)(count_flops)
"""Counted once for all documents with one model and one workload."""


def flop_counters(document: Result | Plan) -> list[tuple[str, str]]:
    """JSON pointer and name of what counted the FLOPs of a run; a result names it for each convention."""
    if not isinstance(document, Result):
        return [("/flops/counted_by", document.flops.counted_by)]
    counters = [(f"/mfu/{index}/counted_by", mfu.counted_by) for index, mfu in enumerate(document.mfu)]
    return counters or [("/mfu", CORE)]


def flops_counted_here(document: Result | Plan) -> FlopCount | None:
    """The count of the installed extensions, else of the core; None for adapters on modules that the model lacks."""
    spec, _ = spec_of(document)
    try:
        workload = workload_of(spec.model, spec.contract, spec.tuning)
        if flop_counters(document)[0][1] == CORE:
            return _core_count(spec.model, workload)
    except UserError:
        return None
    return flops_of(extensions(), spec.model, workload)


def flops_recounted(document: Result | Plan) -> FlopCount | None:
    """The count made here by what counted for the run; None where that is not possible."""
    count = flops_counted_here(document)
    return count if count is not None and count.counted_by == flop_counters(document)[0][1] else None
