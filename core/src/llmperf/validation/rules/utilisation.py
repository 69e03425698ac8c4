"""FLOPs per token, parameters and MFU."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from llmperf.accounting.flops import HEADLINE, count_flops, flops_of, workload_of
from llmperf.accounting.precisions import products_dtype
from llmperf.errors import UserError
from llmperf.types import FlopCount, FlopsPerToken, Result, Text, Violation
from llmperf.validation.plugin_data import extensions, installed_names
from llmperf.validation.reading import shown
from llmperf.validation.violations import close, deviates, differs, figure, rule, spec_of

if TYPE_CHECKING:
    from llmperf.types import Plan

CORE = "core"
"""The value of `counted_by` for the core's own count."""
NOMINAL_FACTOR = 1.3
"""Most that a nominal figure may differ from the count; Llama 3.2 1B has 1.24 x 10^9 parameters."""


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
    if (count := _recount(document)) is None:
        return
    entries = {str(entry.convention): entry for entry in count.per_token}
    for path, field, stated in _stated(document):
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


def _stated(document: Result | Plan) -> Iterator[tuple[str, str, FlopsPerToken]]:
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
    if (count := _recount(document)) is not None:
        yield from differs(path, found, count.parameters, Text("counted from /model"))


@rule("LP315", "warning", "The extension that counted FLOPs is installed", "result", "plan")
def counting_extension_is_installed(document: Result | Plan) -> Iterator[Violation]:
    path, name = _counters(document)[0]
    if name in _recorded_extensions(document) and name not in installed_names("extension"):
        expected = Text("expected extension {}, which counted FLOPs, to be installed", shown(name))
        yield path, Text("{}, found none; only the nominal FLOPs were checked", expected)


@rule("LP316", "error", "The core or an extension of the run counted FLOPs", "result", "plan")
def counted_by_an_extension_of_the_run(document: Result | Plan) -> Iterator[Violation]:
    counters, extensions_of_run = _counters(document), _recorded_extensions(document)
    first_path, first = counters[0]
    if first != CORE and first not in extensions_of_run:
        choices = " or ".join([CORE, *map(shown, sorted(extensions_of_run)[:5])])
        yield first_path, Text("expected {} (the extensions in /plugins), found {}", choices, shown(first))
    elif first in installed_names("extension"):
        count = _count_here(document)
        if count is not None and count.counted_by != first:
            counted = Text("expected {}, which counts this model here", shown(count.counted_by))
            yield first_path, Text("{}, found {}, which is installed and does not", counted, shown(first))
    for path, name in counters[1:]:
        if name != first:
            yield path, Text("expected {}, as for the first convention, found {}", shown(first), shown(name))


@rule("LP317", "error", "Nominal FLOPs follow from the nominal parameters", "result", "plan")
def nominal_flops(document: Result | Plan) -> Iterator[Violation]:
    if _counters(document)[0][1] == CORE:  # LP303 checks all conventions
        return
    spec, _ = spec_of(document)
    factor, model = 6 if spec.contract.lora is None else 4, spec.model
    size = model.nominal_active_parameters or model.nominal_parameters
    for path, field, stated in _stated(document):
        if stated.convention == HEADLINE:
            yield from deviates(f"{path}/{field}", stated.flops, factor * size, f"{factor} x {size:,}")


@rule("LP323", "warning", "Nominal parameters are about those counted", "result", "plan")
def nominal_parameters(document: Result | Plan) -> Iterator[Violation]:
    if isinstance(document, Result):
        path, model, count = "/model", document.model, _recount(document)
        total, active = document.parameters, None if count is None else count.active_parameters
    else:
        path, model = "/spec/model", document.spec.model
        total, active = document.flops.parameters, document.flops.active_parameters
    stated = {
        "nominal_parameters": (model.nominal_parameters, total),
        "nominal_active_parameters": (model.nominal_active_parameters, active),
    }
    for name, (nominal, counted) in stated.items():
        if nominal and counted and max(nominal / counted, counted / nominal) > NOMINAL_FACTOR:
            expected = Text(
                "expected about {} (counted from the model, within a factor of {})", counted, NOMINAL_FACTOR
            )
            yield f"{path}/{name}", Text("{}, found {}", expected, nominal)


_core_count = lru_cache(maxsize=256)(count_flops)
"""Counted once for all documents with one model and one workload."""


def _counters(document: Result | Plan) -> list[tuple[str, str]]:
    """JSON pointer and name of what counted the FLOPs of a run; a result names it for each convention."""
    if not isinstance(document, Result):
        return [("/flops/counted_by", document.flops.counted_by)]
    counters = [(f"/mfu/{index}/counted_by", mfu.counted_by) for index, mfu in enumerate(document.mfu)]
    return counters or [("/mfu", CORE)]


def _recorded_extensions(document: Result | Plan) -> set[str]:
    return {plugin.name for plugin in document.plugins if plugin.role == "extension"}


def _count_here(document: Result | Plan) -> FlopCount | None:
    """The count of the installed extensions, else of the core; None for adapters on modules that the model lacks."""
    spec, _ = spec_of(document)
    try:
        workload = workload_of(spec.model, spec.contract, spec.tuning)
        if _counters(document)[0][1] == CORE:
            return _core_count(spec.model, workload)
    except UserError:
        return None
    return flops_of(extensions(), spec.model, workload)


def _recount(document: Result | Plan) -> FlopCount | None:
    """The count made here by what counted for the run; None where that is not possible."""
    count = _count_here(document)
    return count if count is not None and count.counted_by == _counters(document)[0][1] else None


@rule("LP305", "error", "Each convention occurs once, one of them is the headline")
def one_headline(result: Result) -> Iterator[Violation]:
    seen: set[str] = set()
    for index, mfu in enumerate(result.mfu):
        if mfu.convention in seen:
            yield f"/mfu/{index}/convention", Text("expected each convention once, found {!r} again", mfu.convention)
        seen.add(mfu.convention)
    headlines = [mfu.convention for mfu in result.mfu if mfu.headline]
    if result.mfu and headlines != ["nominal"]:
        found = ", ".join(headlines[:5]) or Text("none")
        yield "/mfu", Text("expected one headline, nominal, found {}", found)


@rule("LP306", "error", "A peak has a source and the dtype of the run")
def peak_has_source(result: Result) -> Iterator[Violation]:
    for index, mfu in enumerate(result.mfu):
        if mfu.peak_flops_per_second is None:
            continue
        if not mfu.peak_source:
            message = Text("expected a source for {}, found none", figure(mfu.peak_flops_per_second))
            yield f"/mfu/{index}/peak_source", message
        if mfu.peak_confidence is None:
            path = f"/mfu/{index}/peak_confidence"
            yield path, Text("expected how reliable {} is, found null", figure(mfu.peak_flops_per_second))
        if mfu.peak_dtype != products_dtype(result.contract):
            expected = Text("{} (contract.precision)", products_dtype(result.contract))
            yield f"/mfu/{index}/peak_dtype", Text("expected {}, found {}", expected, mfu.peak_dtype or "none")
