"""Rules over result tables of FlagPerf."""

from __future__ import annotations

from collections.abc import Iterator

from llmperf.types import Text, Violation
from llmperf.validation import installed_vendors, rule, vendor_catalogue

from llmperf_flagperf.case import names
from llmperf_flagperf.results import KIND, Results, agrees, figure

DTYPES = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8")


@rule("FLAGPERF1", "error", "The printed ratio is measured / nominal", KIND)
def ratio_follows(results: Results) -> Iterator[Violation]:
    for place, row in enumerate(results.rows):
        measured, nominal = figure(row.measured), figure(row.nominal)
        if agrees(row) is False and measured and nominal:
            expected = f"{100 * measured[0] / nominal[0]:.4g}%"
            message = Text("expected {} ({} / {}), found {}", expected, row.measured, row.nominal, row.ratio)
            yield f"/rows/{place}/ratio", message


@rule("FLAGPERF2", "error", "No device is faster or larger than its nominal figure", KIND)
def within_nominal(results: Results) -> Iterator[Violation]:
    for place, row in enumerate(results.rows):
        if (ratio := figure(row.ratio)) is not None and ratio[0] - ratio[1] > 1:
            yield f"/rows/{place}/ratio", Text("expected at most 100 %, found {}", row.ratio)


@rule("FLAGPERF3", "warning", "The nominal compute rate is the published peak", KIND)
def nominal_is_published(results: Results) -> Iterator[Violation]:
    for place, row in enumerate(results.rows):
        item, _, name = row.benchmark.partition("-")
        dtype = next((dtype for dtype in DTYPES if dtype == name.lower()), None)
        nominal, device = figure(row.nominal), names("devices").get(row.device or "", row.device or "")
        catalogue = vendor_catalogue(row.vendor) if row.vendor in installed_vendors() else None
        if item != "computation" or dtype is None or nominal is None or catalogue is None:
            continue
        known = catalogue.exact(device)
        peak = catalogue.peak(known, dtype) if known else None  # type: ignore[arg-type]
        if peak and abs(nominal[0] - peak.flops_per_second) > nominal[1]:
            expected = f"{peak.flops_per_second / 1e12:g}TFLOPS"
            yield f"/rows/{place}/nominal", Text("expected {} ({}), found {}", expected, peak.source, row.nominal)


@rule("FLAGPERF4", "warning", "An operation computes what it should", KIND)
def operation_is_right(results: Results) -> Iterator[Violation]:
    for place, row in enumerate(results.rows):
        if (error := row.relative_error) is not None and error > 0.1:
            message = Text("expected a mean relative error of at most 0.1, found {}", f"{error:g}")
            yield f"/rows/{place}/relative_error", message
