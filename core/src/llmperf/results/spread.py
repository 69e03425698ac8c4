"""How far runs of the same plan lie apart: `llmperf run --repeat`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmperf.results.statistics import quantile
from llmperf.types.result import Result
from llmperf.types.units import NonNegative, Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """token/p/s over several runs."""

    runs: Positive
    """Complete ones: others have no throughput."""
    median: NonNegative
    minimum: NonNegative
    maximum: NonNegative
    relative: NonNegative
    """(maximum - minimum) / median."""


def spread(results: Sequence[Result]) -> Spread | None:
    """The spread over the complete runs; None if there is none."""
    ordered = sorted(
        figure
        for one in results
        if one.status == "complete" and (figure := one.metrics.tokens_per_second_per_device) is not None
    )
    if not ordered:
        return None
    median = quantile(ordered, 0.5)
    relative = (ordered[-1] - ordered[0]) / median if median else 0.0
    return Spread(runs=len(ordered), median=median, minimum=ordered[0], maximum=ordered[-1], relative=relative)
