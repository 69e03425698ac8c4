"""A measured peak against the same measurement after the run: a peak that is too low makes MFU too high."""

from __future__ import annotations

from collections.abc import Iterator

from llmperf.types import Result
from llmperf.types.documents import Violation
from llmperf.validation.violations import figure, rule

FAR_ABOVE = 1.5
"""A host that other processes or its clock slowed down is measured too low, never too high. The peak is kept only if
others took less than a tenth of the cores, and clocks of one model differ by less than half."""
ABOVE = 1.2
"""Measurements of one quiet host differ by up to a tenth."""


@rule("LP658", "error", "A device computes no faster after the run than its peak")
def peak_is_not_lowered(result: Result) -> Iterator[Violation]:
    """The peak measured after the run is at most 1.5 times the peak that MFU is computed with."""
    for path, found, again in _measured_twice(result):
        if again > FAR_ABOVE * found:
            yield path, _message(again, found)


@rule("LP659", "warning", "The peak measured after the run is about the peak before it")
def peak_is_about_the_same(result: Result) -> Iterator[Violation]:
    """The peak measured after the run is at most 1.2 times the peak that MFU is computed with."""
    for path, found, again in _measured_twice(result):
        if ABOVE * found < again <= FAR_ABOVE * found:
            yield path, _message(again, found)


def _measured_twice(result: Result) -> Iterator[tuple[str, float, float]]:
    """Pointer and figure of the measured peak of each convention, and the later figure; of one rank's share."""
    if result.peak_again is None:
        return
    again = result.peak_again.flops_per_second * result.hardware.device_share
    for index, mfu in enumerate(result.mfu):
        peak = mfu.peak_flops_per_second
        if mfu.peak_confidence == "measured" and mfu.peak_dtype == result.peak_again.dtype and peak is not None:
            yield f"/mfu/{index}/peak_flops_per_second", peak, again


def _message(again: float, found: float) -> str:
    return f"expected at least {figure(again)} (measured after the run), found {figure(found)}: MFU is too high"
