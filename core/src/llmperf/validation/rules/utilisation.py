"""FLOPs per token, parameters, MFU."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from llmperf.accounting.flops import count_flops, flops_of, workload_of
from llmperf.errors import UserError
from llmperf.types import FlopCount, Result
from llmperf.types.documents import Violation
from llmperf.validation.installed import extensions
from llmperf.validation.reading import shown
from llmperf.validation.violations import deviates, differs, figure, rule

if TYPE_CHECKING:
    from llmperf.types import Plan

CORE = "core"
"""What `counted_by` says of the core's own count."""


@rule("LP301", "error", "MFU is token/p/s x FLOPs per token / peak")
def mfu_follows(result: Result) -> Iterator[Violation]:
    """Each convention's figure follows from its own numerator and its own peak."""
    throughput = result.metrics.tokens_per_second_per_device
    for index, mfu in enumerate(result.mfu):
        path = f"/mfu/{index}/value"
        if mfu.value is None or throughput is None or not mfu.peak_flops_per_second:
            if mfu.value is not None:
                yield path, f"expected null (no throughput or no peak), found {figure(mfu.value)}"
            continue
        expected = throughput * mfu.flops_per_token / mfu.peak_flops_per_second
        factors = (throughput, mfu.flops_per_token)
        because = f"{' x '.join(map(figure, factors))} / {figure(mfu.peak_flops_per_second)}, {mfu.convention}"
        yield from deviates(path, mfu.value, expected, because)


@rule("LP302", "error", "No device computes faster than its peak")
def mfu_at_most_one(result: Result) -> Iterator[Violation]:
    """An MFU over 1 means a wrong peak, a wrong FLOP count, or a stopwatch that did not wait for the device."""
    for index, mfu in enumerate(result.mfu):
        if mfu.value is not None and mfu.value > 1:
            yield f"/mfu/{index}/value", f"expected at most 1 ({mfu.convention}), found {figure(mfu.value)}"


@rule("LP303", "error", "FLOPs per token are those of the model", "result", "plan")
def flops_of_the_model(document: Result | Plan) -> Iterator[Violation]:
    """The numerator of MFU is counted from the model's facts and the workload, by what counted it for the run."""
    if (count := _recount(document)) is None:
        return
    entries = {str(entry.convention): entry for entry in count.per_token}
    for path, convention, found in _stated(document):
        if (entry := entries.get(convention)) is not None:
            expected = int(entry.flops) if float(entry.flops).is_integer() else entry.flops
            yield from deviates(path, found, expected, f"{convention}: {entry.formula}")


def _stated(document: Result | Plan) -> Iterator[tuple[str, str, float]]:
    """JSON pointer, convention and value of each FLOPs per token that a document states."""
    if not isinstance(document, Result):
        for index, entry in enumerate(document.flops.per_token):
            yield f"/flops/per_token/{index}/flops", entry.convention, entry.flops
    else:
        for index, mfu in enumerate(document.mfu):
            yield f"/mfu/{index}/flops_per_token", mfu.convention, mfu.flops_per_token


@rule("LP304", "error", "Parameters are those of the model", "result", "plan")
def parameters_of_the_model(document: Result | Plan) -> Iterator[Violation]:
    """The parameter count follows from the model's facts."""
    if not isinstance(document, Result):
        path, found = "/flops/parameters", document.flops.parameters
    else:
        path, found = "/parameters", document.parameters
    if (count := _recount(document)) is not None:
        yield from differs(path, found, count.parameters, "counted from /model")


@rule("LP315", "warning", "The extension that counted FLOPs is installed", "result", "plan")
def counting_extension_is_installed(document: Result | Plan) -> Iterator[Violation]:
    """Without it, FLOPs and parameters cannot be counted again."""
    name, path = _counted_by(document)
    if name != CORE and _recount(document) is None:
        expected = f"expected extension {shown(name)}, which counted FLOPs, to count this model"
        yield path, f"{expected}, found that it is not installed or does not; FLOPs and parameters were not checked"


_core_count = lru_cache(maxsize=256)(count_flops)
"""Counted once for all documents with one model and one workload."""


def _counted_by(document: Result | Plan) -> tuple[str, str]:
    """The name of what counted the FLOPs of a run, and the JSON pointer of that name."""
    if not isinstance(document, Result):
        return document.flops.counted_by, "/flops/counted_by"
    return (document.mfu[0].counted_by if document.mfu else CORE), "/mfu/0/counted_by"


def _recount(document: Result | Plan) -> FlopCount | None:
    """The count made here by what counted for the run; None where that is not possible."""
    spec = document.spec if not isinstance(document, Result) else document
    try:
        workload = workload_of(spec.model, spec.contract, spec.tuning)
    except UserError:  # adapters on modules that the model does not have
        return None
    name, _ = _counted_by(document)
    count = _core_count(spec.model, workload) if name == CORE else flops_of(extensions(), spec.model, workload)
    return count if count.counted_by == name else None


@rule("LP305", "error", "Each convention stands once, one of them is the headline")
def one_headline(result: Result) -> Iterator[Violation]:
    """Published tables are compared under `nominal`."""
    seen: set[str] = set()
    for index, mfu in enumerate(result.mfu):
        if mfu.convention in seen:
            yield f"/mfu/{index}/convention", f"expected each convention once, found {mfu.convention!r} again"
        seen.add(mfu.convention)
    headlines = [mfu.convention for mfu in result.mfu if mfu.headline]
    if result.mfu and headlines != ["nominal"]:
        found = ", ".join(headlines[:5]) or "none"
        yield "/mfu", f"expected one headline, nominal, found {found}"


@rule("LP306", "error", "A peak has a source and the dtype of the run")
def peak_has_source(result: Result) -> Iterator[Violation]:
    """A peak is a claim: without a source nobody can check it."""
    for index, mfu in enumerate(result.mfu):
        if mfu.peak_flops_per_second is None:
            continue
        if not mfu.peak_source:
            yield f"/mfu/{index}/peak_source", f"expected a source for {figure(mfu.peak_flops_per_second)}, found none"
        if mfu.peak_confidence is None:
            path = f"/mfu/{index}/peak_confidence"
            yield path, f"expected how reliable {figure(mfu.peak_flops_per_second)} is, found null"
        if mfu.peak_dtype != result.contract.precision:
            expected = f"{result.contract.precision} (contract.precision)"
            yield f"/mfu/{index}/peak_dtype", f"expected {expected}, found {mfu.peak_dtype or 'none'}"


@rule("LP310", "note", "A peak is from a datasheet or was measured")
def peak_is_reliable(result: Result) -> Iterator[Violation]:
    """An MFU by a derived peak, or by one from a secondary source, is no better than that peak."""
    for index, mfu in enumerate(result.mfu):
        if mfu.peak_confidence == "low":
            source = f"source: {shown(mfu.peak_source)}"
            yield f"/mfu/{index}/peak_confidence", f"expected datasheet or measured, found low; {source}"
            return
