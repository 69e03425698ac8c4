"""How a run went, for plotting: what each rank and device showed over steps and over time, as bands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from llmperf.results.device_readings import window
from llmperf.results.statistics import quantile
from llmperf.runfolder.contents import RunRecords, read_run
from llmperf.types.devices import DeviceSample

MAX_POINTS = 400
"""In one curve: what a screen can show."""


@dataclass(frozen=True, slots=True)
class Band:
    """One curve with what lies around it: 5th percentile, median and 95th percentile at each point.

    Where no x has more than two values, low and high are the smallest and the largest.
    """

    x: tuple[float, ...]
    low: tuple[float, ...]
    middle: tuple[float, ...]
    high: tuple[float, ...]
    of: int
    """Most values at one x."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The curves of one run; one without points was not recorded. Seconds are since the measured window began, or
    since the first sample where it never did."""

    window_seconds: float | None
    """How long every rank was in its measured window; None where that never was."""
    step_seconds: Band
    """By step, over ranks, in seconds."""
    memory_bytes: Band
    """By seconds, over devices, in bytes in use."""
    power_watts: Band
    """By seconds, over devices, in watts."""
    utilisation_percent: Band
    """By seconds, over devices, in percent."""


def read_series(run: Path, points: int = MAX_POINTS) -> Series:
    """The curves of a run folder; UserError if its plan or records cannot be read."""
    records = read_run(run)
    by_step = ((float(step), [one.step_seconds for one in ranks]) for step, ranks in records.by_step.items())
    span = window(records)
    return Series(
        window_seconds=None if span is None else span[1] - span[0],
        step_seconds=band(by_step, points),
        memory_bytes=_sampled(records, lambda one: one.memory_used_bytes, points),
        power_watts=_sampled(records, lambda one: one.power_watts, points),
        utilisation_percent=_sampled(records, lambda one: one.utilisation_percent, points),
    )


def _sampled(records: RunRecords, figure: Callable[[DeviceSample], float | None], points: int) -> Band:
    span = window(records)
    start = span[0] if span else records.samples[0].monotonic if records.samples else 0.0
    values = (
        (sample.monotonic - start, [value for device in sample.devices if (value := figure(device)) is not None])
        for sample in records.samples
    )
    return band(values, points)


def band(values: Iterable[tuple[float, Sequence[float]]], points: int) -> Band:
    """Percentiles of the values at each x. Where there are more than `points`, neighbours share one point."""
    known = [(x, values_here) for x, values_here in values if values_here]
    most = max((len(values_here) for _, values_here in known), default=0)
    edge = 0.05 if most > 2 else 0.0
    each = max(1, -(-len(known) // max(1, points)))
    shared = [known[start : start + each] for start in range(0, len(known), each)]
    x, low, middle, high = [], [], [], []
    for neighbours in shared:
        ordered = sorted(value for _, values_here in neighbours for value in values_here)
        x.append(neighbours[0][0])
        low.append(quantile(ordered, edge))
        middle.append(median(ordered))
        high.append(quantile(ordered, 1 - edge))
    return Band(tuple(x), tuple(low), tuple(middle), tuple(high), most)
