"""What MFU rests on: who counted FLOPs, nominal sizes, reliable peaks, and recipes with products in two dtypes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from llmperf.accounting import known_conventions, precision_recipe, products_dtype, weighted_peak, work_shares
from llmperf.types import Result, Text, Violation
from llmperf.types.flop_counts import Mfu, WeightedPeak
from llmperf.validation import (
    CORE,
    deviates,
    figure,
    flop_counters,
    flops_counted_here,
    flops_recounted,
    flops_stated,
    installed_names,
    rule,
    shown,
    spec_of,
)

from llmperf_verify.rules.device_figures import published_device

if TYPE_CHECKING:
    from llmperf.types import Plan

NOMINAL_FACTOR = 1.3
"""Most that a nominal figure may differ from the count; Llama 3.2 1B has 1.24 x 10^9 parameters."""


@rule("LP315", "warning", "The extension that counted FLOPs is installed", "result", "plan")
def counting_extension_is_installed(document: Result | Plan) -> Iterator[Violation]:
    path, name = flop_counters(document)[0]
    if name in _recorded_extensions(document) and name not in installed_names("extension"):
        expected = Text("expected extension {}, which counted FLOPs, to be installed", shown(name))
        yield path, Text("{}, found none; only the nominal FLOPs were checked", expected)


@rule("LP316", "error", "The core or an extension of the run counted FLOPs", "result", "plan")
def counted_by_an_extension_of_the_run(document: Result | Plan) -> Iterator[Violation]:
    counters, extensions_of_run = flop_counters(document), _recorded_extensions(document)
    first_path, first = counters[0]
    if first != CORE.name and first not in extensions_of_run:
        choices = " or ".join([CORE.name, *map(shown, sorted(extensions_of_run)[:5])])
        yield first_path, Text("expected {} (the extensions in /plugins), found {}", choices, shown(first))
    elif first in installed_names("extension"):
        count = flops_counted_here(document)
        if count is not None and count.counted_by != first:
            counted = Text("expected {}, which counts this model here", shown(count.counted_by))
            yield first_path, Text("{}, found {}, which is installed and does not", counted, shown(first))
    for path, name in counters[1:]:
        if name != first:
            yield path, Text("expected {}, as for the first convention, found {}", shown(first), shown(name))


@rule("LP317", "error", "Nominal FLOPs follow from the nominal parameters", "result", "plan")
def nominal_flops(document: Result | Plan) -> Iterator[Violation]:
    if flop_counters(document)[0][1] == CORE.name:  # LP303 checks all conventions
        return
    spec, _ = spec_of(document)
    factor, model = 6 if spec.contract.lora is None else 4, spec.model
    size = model.nominal_active_parameters or model.nominal_parameters
    for path, field, stated in flops_stated(document):
        if stated.convention == "nominal":
            yield from deviates(f"{path}/{field}", stated.flops, factor * size, f"{factor} x {size:,}")


@rule("LP323", "warning", "Nominal parameters are about those counted", "result", "plan")
def nominal_parameters(document: Result | Plan) -> Iterator[Violation]:
    if isinstance(document, Result):
        path, model, count = "/model", document.model, flops_recounted(document)
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


def _recorded_extensions(document: Result | Plan) -> set[str]:
    return {plugin.name for plugin in document.plugins if plugin.role == "extension"}


@rule("LP310", "note", "A peak is from a datasheet or was measured")
def peak_is_reliable(result: Result) -> Iterator[Violation]:
    for index, mfu in enumerate(result.mfu):
        if mfu.peak_confidence == "low":
            source = Text("source: {}", shown(mfu.peak_source))
            yield f"/mfu/{index}/peak_confidence", Text("expected datasheet or measured, found low; {}", source)
            return


PEAK = "peak_flops_per_second"


@rule("LP321", "error", "An emulated run has no MFU")
def emulated_run_has_no_mfu(result: Result) -> Iterator[Violation]:
    asked = result.tuning.emulate_precision
    if result.emulated != asked:
        flags = (str(flag).lower() for flag in (asked, result.emulated))
        yield "/emulated", Text("expected {} (tuning.emulate_precision), found {}", *flags)
    recipe = precision_recipe(result.contract.precision)
    if result.emulated and recipe.products != "fp8":
        yield "/emulated", Text("expected false ({} has no products in fp8), found true", recipe.name)
    if not result.emulated:
        return
    for index, mfu in enumerate(result.mfu):
        for name in ("peak_flops_per_second", "value", "of_measured_peak", "of_weighted_peak"):
            if (found := getattr(mfu, name)) is not None:
                yield f"/mfu/{index}/{name}", Text("expected null (products are emulated), found {}", figure(found))


@rule("LP322", "error", "MFU of the work-weighted peak is recomputed")
def weighted_peak_follows(result: Result) -> Iterator[Violation]:
    throughput = result.metrics.tokens_per_second_per_device
    for index, mfu in enumerate(result.mfu):
        path, peak = f"/mfu/{index}", mfu.weighted_peak
        if peak is not None:
            yield from _parts(result, mfu, peak, f"{path}/weighted_peak")
        if peak is None or throughput is None or not peak.flops_per_second:
            if mfu.of_weighted_peak is not None:
                found = figure(mfu.of_weighted_peak)
                message = Text("expected null (no throughput or no weighted peak), found {}", found)
                yield f"{path}/of_weighted_peak", message
            continue
        because = f"{figure(throughput)} x {figure(mfu.flops_per_token)} / {figure(peak.flops_per_second)}"
        if mfu.of_weighted_peak is None:
            yield f"{path}/of_weighted_peak", Text("expected a number ({}), found null", because)
            continue
        expected = throughput * mfu.flops_per_token / peak.flops_per_second
        yield from deviates(f"{path}/of_weighted_peak", mfu.of_weighted_peak, expected, because)
        if mfu.of_weighted_peak > 1:
            yield f"{path}/of_weighted_peak", Text("expected at most 1, found {}", figure(mfu.of_weighted_peak))


def _parts(result: Result, mfu: Mfu, peak: WeightedPeak, path: str) -> Iterator[Violation]:
    recipe = precision_recipe(result.contract.precision)
    if not recipe.mixed:
        yield path, Text("expected null ({} has all products in {}), found a peak", recipe.name, recipe.products)
        return
    if mfu.convention not in known_conventions():  # LP303 reports it
        return
    shares = work_shares(result.model, result.contract, mfu.convention)
    found = {part.dtype: part for part in peak.parts}
    if list(found) != list(shares) or len(peak.parts) != len(shares):
        parts = ", ".join(part.dtype for part in peak.parts[:5]) or Text("none")
        yield f"{path}/parts", Text("expected {} ({}), found {}", ", ".join(shares), recipe.name, parts)
        return
    published = published_device(result)
    for place, part in enumerate(peak.parts):
        where = f"{path}/parts/{place}"
        because = Text("{}, counted from the model", part.dtype)
        yield from deviates(f"{where}/share", part.share, shares[part.dtype], because)
        if published is not None and (peak_of_part := published[0].peak(published[1], part.dtype)) is not None:
            expected = peak_of_part.flops_per_second * result.hardware.device_share
            of = Text("{}, {}", published[1].model, part.dtype)
            yield from deviates(f"{where}/{PEAK}", part.peak_flops_per_second, expected, of)
        if part.dtype == recipe.products and mfu.peak_flops_per_second is not None:
            whole = mfu.peak_flops_per_second
            yield from deviates(f"{where}/{PEAK}", part.peak_flops_per_second, whole, PEAK)
    if all(part.peak_flops_per_second for part in peak.parts):
        known = {part.dtype: (part.peak_flops_per_second, part.peak_source) for part in peak.parts}
        expected = weighted_peak({part.dtype: part.share for part in peak.parts}, known).flops_per_second
        because = Text("1 / sum of share / peak")
        yield from deviates(f"{path}/flops_per_second", peak.flops_per_second, expected, because)


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
