"""Rules over the peaks that were measured before and after a run."""

from __future__ import annotations

from collections.abc import Iterator

from llmperf.accounting import products_dtype
from llmperf.types import Result, Text, Violation
from llmperf.validation import deviates, figure, rule, shown

EXACT = 1e-6
"""Relative tolerance for a figure that is computed again: what is left of it after JSON."""


@rule("LP319", "error", "MFU of the measured peak is token/p/s x FLOPs per token / that peak")
def mfu_of_measured_peak_follows(result: Result) -> Iterator[Violation]:
    measured, throughput = result.measured_peak, result.metrics.tokens_per_second_per_device
    peak = None if measured is None else measured.flops_per_second
    if measured is not None and measured.dtype != products_dtype(result.contract):
        expected = Text("{} (contract.precision)", products_dtype(result.contract))
        yield "/measured_peak/dtype", Text("expected {}, found {}", expected, shown(measured.dtype))
    for index, mfu in enumerate(result.mfu):
        path, found = f"/mfu/{index}/of_measured_peak", mfu.of_measured_peak
        if throughput is not None and peak:
            because = f"{figure(throughput)} x {figure(mfu.flops_per_token)} / {figure(peak)}, {mfu.convention}"
            if found is not None:
                yield from deviates(path, found, throughput * mfu.flops_per_token / peak, because)
        elif found is not None:
            yield path, Text("expected null (no throughput or no measured peak), found {}", figure(found))


@rule("LP658", "error", "MFU is by the larger of the peaks measured before and after the run")
def larger_peak_counts(result: Result) -> Iterator[Violation]:
    if result.peak_again is None:
        return
    again = result.peak_again.flops_per_second * result.hardware.device_share
    for index, mfu in enumerate(result.mfu):
        peak = mfu.peak_flops_per_second
        if mfu.peak_dtype == result.peak_again.dtype and peak is not None and again > (1 + EXACT) * peak:
            message = Text("expected at least {} (measured after the run), found {}", figure(again), figure(peak))
            yield f"/mfu/{index}/peak_flops_per_second", Text("{}: MFU is too high", message)
            return  # all conventions have the same peak
