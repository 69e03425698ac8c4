"""Recipes with products in two dtypes: their work-weighted peak, and emulation."""

from __future__ import annotations

from collections.abc import Iterator

from llmperf.accounting.conventions import conventions
from llmperf.accounting.precisions import precision_recipe
from llmperf.accounting.weighted_peak import weighted_peak, work_shares
from llmperf.types import Result
from llmperf.types.devices import Dtype
from llmperf.types.documents import Violation
from llmperf.types.utilisation import Mfu, WeightedPeak
from llmperf.validation.installed import vendor_catalogue
from llmperf.validation.violations import deviates, figure, rule


@rule("LP321", "error", "An emulated run has no MFU")
def emulated_run_has_no_mfu(result: Result) -> Iterator[Violation]:
    """Devices without fp8 compute emulated products in another dtype, whose speed says nothing about fp8."""
    asked = result.tuning.emulate_precision
    if result.emulated != asked:
        yield "/emulated", f"expected {_json(asked)} (tuning.emulate_precision), found {_json(result.emulated)}"
    recipe = precision_recipe(result.contract.precision)
    if result.emulated and recipe.products != "fp8":
        yield "/emulated", f"expected false ({recipe.name} has no products in fp8), found true"
    if not result.emulated:
        return
    for index, mfu in enumerate(result.mfu):
        for name in ("peak_flops_per_second", "value", "of_measured_peak", "of_weighted_peak"):
            if (found := getattr(mfu, name)) is not None:
                yield f"/mfu/{index}/{name}", f"expected null (products are emulated), found {figure(found)}"


@rule("LP322", "error", "MFU of the work-weighted peak is recomputed")
def weighted_peak_follows(result: Result) -> Iterator[Violation]:
    """The share of each dtype follows from the model, the peak from shares and peaks, MFU from that peak."""
    throughput = result.metrics.tokens_per_second_per_device
    for index, mfu in enumerate(result.mfu):
        path, peak = f"/mfu/{index}", mfu.weighted_peak
        if peak is not None:
            yield from _parts(result, mfu, peak, f"{path}/weighted_peak")
        if peak is None or throughput is None or not peak.flops_per_second:
            if mfu.of_weighted_peak is not None:
                because = "no throughput or no weighted peak"
                yield f"{path}/of_weighted_peak", f"expected null ({because}), found {figure(mfu.of_weighted_peak)}"
            continue
        because = f"{figure(throughput)} x {figure(mfu.flops_per_token)} / {figure(peak.flops_per_second)}"
        if mfu.of_weighted_peak is None:
            yield f"{path}/of_weighted_peak", f"expected a number ({because}), found null"
            continue
        expected = throughput * mfu.flops_per_token / peak.flops_per_second
        yield from deviates(f"{path}/of_weighted_peak", mfu.of_weighted_peak, expected, because)
        if mfu.of_weighted_peak > 1:
            yield f"{path}/of_weighted_peak", f"expected at most 1, found {figure(mfu.of_weighted_peak)}"


def _parts(result: Result, mfu: Mfu, peak: WeightedPeak, path: str) -> Iterator[Violation]:
    recipe = precision_recipe(result.contract.precision)
    if not recipe.mixed:
        yield path, f"expected null ({recipe.name} has all products in {recipe.products}), found a peak"
        return
    if mfu.convention not in conventions():  # LP303 reports it
        return
    shares = work_shares(result.model, result.contract, mfu.convention)
    found = {part.dtype: part for part in peak.parts}
    if list(found) != list(shares) or len(peak.parts) != len(shares):
        parts = ", ".join(part.dtype for part in peak.parts[:5]) or "none"
        yield f"{path}/parts", f"expected {', '.join(shares)} ({recipe.name}), found {parts}"
        return
    for place, part in enumerate(peak.parts):
        where = f"{path}/parts/{place}"
        yield from deviates(f"{where}/share", part.share, shares[part.dtype], f"{part.dtype}, counted from the model")
        yield from _published(result, where, part.dtype, part.peak_flops_per_second)
        if part.dtype == recipe.products and mfu.peak_flops_per_second is not None:
            because = "peak_flops_per_second"
            yield from deviates(
                f"{where}/peak_flops_per_second", part.peak_flops_per_second, mfu.peak_flops_per_second, because
            )
    if all(part.peak_flops_per_second for part in peak.parts):
        known = {part.dtype: (part.peak_flops_per_second, part.peak_source) for part in peak.parts}
        expected = weighted_peak({part.dtype: part.share for part in peak.parts}, known).flops_per_second
        yield from deviates(f"{path}/flops_per_second", peak.flops_per_second, expected, "1 / sum of share / peak")


def _published(result: Result, where: str, dtype: Dtype, found: float) -> Iterator[Violation]:
    """The peak of a part against what the vendor publishes of the device."""
    catalogue = vendor_catalogue(result.hardware.vendor)
    device = None if catalogue is None else catalogue.exact(result.hardware.device_model)
    if catalogue is None or device is None:
        return
    peak = catalogue.peak(device, dtype)
    if peak is not None:
        expected = peak.flops_per_second * result.hardware.device_share
        yield from deviates(f"{where}/peak_flops_per_second", found, expected, f"{device.model}, {dtype}")


def _json(value: bool) -> str:
    return "true" if value else "false"
