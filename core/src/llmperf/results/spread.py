"""How far runs of the same plan lie apart: `llmperf run --repeat`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmperf.accounting.evenness import OTHER_CPU_SHARE, UNEVEN_MEAN, UNEVEN_QUANTILES
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
    relative: NonNegative | None
    """(maximum - minimum) / median; None for one run, which has no spread."""


def throughputs(results: Sequence[Result]) -> list[float]:
    """token/p/s of each complete run that has one."""
    return [
        figure
        for one in results
        if one.status == "complete" and (figure := one.metrics.tokens_per_second_per_device) is not None
    ]


def spread(results: Sequence[Result]) -> Spread | None:
    """The spread over the complete runs; None if there is none."""
    ordered = sorted(throughputs(results))
    if not ordered:
        return None
    median = quantile(ordered, 0.5)
    relative = (ordered[-1] - ordered[0]) / median if len(ordered) > 1 and median else None
    return Spread(runs=len(ordered), median=median, minimum=ordered[0], maximum=ordered[-1], relative=relative)


def disturbed(result: Result) -> bool:
    """Whether its steps were very uneven, or other processes used the host or its devices beside it."""
    return uneven(result) or shared(result)


def uneven(result: Result) -> bool:
    """Whether its steps differ so much that something must have slowed some of them down."""
    steps = result.metrics.step_seconds
    if steps is None:
        return False
    return steps.mean > UNEVEN_MEAN * steps.median or steps.p95 > UNEVEN_QUANTILES * steps.p5


def shared(result: Result) -> bool:
    """Whether other processes used the host or its devices while it was measured, beyond what LP409 allows."""
    share, processes = result.metrics.other_cpu_share, result.metrics.other_processes
    return (share is not None and share > OTHER_CPU_SHARE) or bool(processes)
