"""Statistics of step times, and of the throughput of repeats of one run."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import pairwise
from statistics import fmean

from llmperf.types.layout import Layout
from llmperf.types.result import Result, StepQuarter, StepStatistics
from llmperf.types.units import NonNegative, Positive

MIN_STEPS_FOR_INTERVAL = 20
BATCHES = 10
SORTED = 2**16
"""Values that are sorted at once."""
T_QUANTILE = 2.262157
"""97.5 % quantile of Student's t with BATCHES - 1 degrees of freedom."""


def quantile(ordered: Sequence[float], part: float) -> float:
    """A quantile of values in ascending order, linear between neighbours (Hyndman and Fan 1996, type 7)."""
    position = part * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def step_statistics(seconds: Sequence[float]) -> StepStatistics | None:
    """Median, 5 % and 95 % quantiles and mean with its interval; None for no steps.

    The interval is the 95 % confidence interval of the mean by batch means; none for less than MIN_STEPS_FOR_INTERVAL
    steps. The steps, in the order they came in, are cut into BATCHES batches as equal in length as whole steps allow;
    each batch's mean counts by its length, so that every step is in the spread. Means of long batches hardly depend on
    one another where neighbouring steps do, so their spread, unlike that of the steps, holds the autocorrelation (Law,
    Simulation Modeling and Analysis, 9.5.3).
    """
    if not seconds:
        return None
    count, mean = len(seconds), fmean(seconds)
    low = high = None
    quarters = []
    if count >= MIN_STEPS_FOR_INTERVAL:
        cuts = [batch * count // BATCHES for batch in range(BATCHES + 1)]
        apart = [math.sqrt((end - first) / count) * (fmean(seconds[first:end]) - mean) for first, end in pairwise(cuts)]
        half = T_QUANTILE * math.hypot(*apart) / math.sqrt(BATCHES - 1)
        low, high = max(0.0, mean - half), mean + half
        for first, end in pairwise(quarter * count // 4 for quarter in range(5)):
            p25, median, p75 = _quantiles(seconds[first:end], (0.25, 0.5, 0.75))
            quarters.append(StepQuarter(median=median, p25=p25, p75=p75))
    p5, median, p95 = _quantiles(seconds, (0.05, 0.5, 0.95))
    return StepStatistics(
        median=median, p5=p5, p95=p95, mean=mean, mean_low=low, mean_high=high, quarters=tuple(quarters)
    )


def _quantiles(values: Sequence[float], parts: Sequence[float]) -> list[float]:
    """Quantiles of many values; takes 8 bytes for each of them, a fifth of what a sorted list takes."""
    ordered_parts = [array("d", sorted(values[start : start + SORTED])) for start in range(0, len(values), SORTED)]
    last = len(values) - 1
    below = [math.floor(part * last) for part in parts]
    wanted = {*below, *(min(place + 1, last) for place in below)}
    at = {place: value for place, value in enumerate(merge(*ordered_parts)) if place in wanted}
    return [
        at[place] + (at[min(place + 1, last)] - at[place]) * (part * last - place)
        for part, place in zip(parts, below, strict=True)
    ]


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
        for result in results
        if result.status == "complete" and (figure := result.metrics.tokens_per_second_per_device) is not None
    ]


def spread(results: Sequence[Result]) -> Spread | None:
    """The spread over the complete runs; None if there is none."""
    ordered = sorted(throughputs(results))
    if not ordered:
        return None
    median = quantile(ordered, 0.5)
    relative = (ordered[-1] - ordered[0]) / median if len(ordered) > 1 and median else None
    return Spread(runs=len(ordered), median=median, minimum=ordered[0], maximum=ordered[-1], relative=relative)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The properties that repeats of a run share."""

    case: str
    model: str
    contract: tuple[tuple[str, object], ...]
    """Changes of the contract, path and value."""
    device: str
    """Model of the devices."""
    device_share: float
    """Part of one physical device that each rank had."""
    framework: str
    """Name of the framework plugin."""
    layout: Layout
    """Layout of the ranks."""
    tuning: tuple[tuple[str, object], ...]
    """Other changes, path and value."""


def kind_of(result: Result) -> Kind:
    """The kind of run that a result belongs to."""
    changes = [(change.contract, (change.path, change.value)) for change in result.fix_hp]
    return Kind(
        case=result.case,
        model=result.model.name,
        contract=tuple(sorted(change for contract, change in changes if contract)),
        device=result.hardware.device_model,
        device_share=result.hardware.device_share,
        framework=result.tuning.framework,
        layout=result.parallelism,
        tuning=tuple(sorted(change for contract, change in changes if not contract)),
    )


def device_throughput(result: Result) -> float | None:
    """Tokens a second of all the ranks that share one device; None where unknown."""
    figure, share = result.metrics.tokens_per_second_per_device, result.hardware.device_share
    return figure / share if figure is not None and share else None
