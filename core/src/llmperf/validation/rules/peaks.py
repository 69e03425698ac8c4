"""A measured peak against the same measurement after the run: a peak that is too low makes MFU too high."""

from __future__ import annotations

from collections.abc import Iterator

from llmperf.types import Result, Text, Violation
from llmperf.validation.violations import EXACT, figure, rule


@rule("LP658", "error", "MFU is by the larger of the peaks measured before and after the run")
def larger_peak_counts(result: Result) -> Iterator[Violation]:
    """Other processes lower what is measured, so the larger of two measurements is nearer to the peak."""
    if result.peak_again is None:
        return
    again = result.peak_again.flops_per_second * result.hardware.device_share
    for index, mfu in enumerate(result.mfu):
        peak = mfu.peak_flops_per_second
        if mfu.peak_dtype == result.peak_again.dtype and peak is not None and again > (1 + EXACT) * peak:
            message = Text("expected at least {} (measured after the run), found {}", figure(again), figure(peak))
            yield f"/mfu/{index}/peak_flops_per_second", Text("{}: MFU is too high", message)
            return  # all conventions have the same peak
