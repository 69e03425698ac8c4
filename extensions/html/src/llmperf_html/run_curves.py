"""The curves of a run: loss, and the readings of its ranks and devices."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from itertools import islice, pairwise
from operator import itemgetter
from pathlib import Path
from statistics import median

from llmperf import rank_records
from llmperf.errors import UserError
from llmperf.reporting import folder_of, quantile
from llmperf.types import Curve, Curves, MemorySample, ProfileRecord, Result, Sheet, StepProfile, StepRecord
from llmperf.validation import by_step, merged, read_run, record_files, samples_of

MAX_SAMPLES = 20_000
"""Readings of devices that curves are made of."""
MAX_POINTS = 400
"""Points of one curve, as many as a screen can show."""
SAMPLED = {
    "memory_bytes": "memory_used_bytes",
    "power_watts": "power_watts",
    "utilisation_percent": "utilisation_percent",
}
"""Field of the readings of devices, by the curve of it."""


def curves_of(sheet: Sheet) -> Curves | None:
    """The loss of a result and the records in its run folder; None if there is neither."""
    result, recorded = sheet.source.document, Curves(by_name={})
    if sheet.curves is not None or not isinstance(result, Result):
        return None if sheet.curves is None else sheet.curves()
    with suppress(UserError, LookupError, ArithmeticError, ValueError, TypeError), folder_of(sheet.source) as folder:
        if (folder / "plan.json").is_file():
            recorded = recorded_curves(folder)
    known = {name: curve for name, curve in recorded.by_name.items() if curve.x}
    points = [(float(point.step), point.loss) for point in result.loss_curve if point.loss is not None]
    if points:
        kept = points[:: max(1, -(-len(points) // MAX_POINTS))]
        steps, losses = tuple(step for step, _ in kept), tuple(loss for _, loss in kept)
        known["loss"] = Curve(x=steps, low=losses, middle=losses, high=losses, of=1)
    if not known:
        return None
    return replace(
        recorded,
        by_name=known,
        entropy=result.metrics.known_entropy,
        warmup_steps=result.contract.warmup_steps,
    )


def recorded_curves(folder: Path) -> Curves:
    """The curves in the records of a run folder; seconds are since its measured window or first sample began."""
    records = read_run(folder)
    plan, steps, starts = records.plan, records.steps, {node: span[0] for node, span in records.windows.items()}
    profiles: list[StepProfile] = []

    def ends_of_first_rank() -> Iterator[tuple[float, list[float]]]:
        for record in rank_records(records.run, 0):
            if isinstance(record, ProfileRecord):
                profiles.append(record.profile)
            elif isinstance(record, StepRecord) and 0 in starts:
                yield float(record.step), [record.monotonic - starts[0]]

    parts = merged(record_files(records.run), lambda _: None)
    of_steps = (step for part in parts for step in by_step(part).items())
    times = ((float(step), [rank.step_seconds for rank in ranks]) for step, ranks in of_steps)
    curves = {
        "step_seconds": _shared(times, steps.recorded, steps.most_ranks, MAX_POINTS),
        "step_ends": _shared(ends_of_first_rank(), steps.recorded, 1, MAX_POINTS),
    }
    traced: dict[str, float] = defaultdict(float)
    if profiles and find_spec("llmperf_trace") is not None:
        from llmperf_trace.step_parts import mean_profile, parts_of_step

        for (_, kind), seconds in parts_of_step(mean_profile(profiles)).items():
            traced[kind] += seconds
    # the readings of all nodes with their seconds; of very many, every 2nd, 4th, 8th ... of each node
    places: Counter[int] = Counter()
    kept: list[tuple[int, float, MemorySample]] = []
    every = 1
    for sample in samples_of(records.run, plan.layout.nodes):
        node, place = sample.node_rank, places[sample.node_rank]
        places[node] += 1
        if place % every == 0:
            kept.append((place, sample.monotonic - starts.setdefault(node, sample.monotonic), sample))
        if len(kept) > MAX_SAMPLES:
            every *= 2
            kept = [reading for reading in kept if reading[0] % every == 0]
    kept.sort(key=itemgetter(1))
    for name, field in SAMPLED.items():
        shown = ((at, [getattr(device, field) for device in sample.devices]) for _, at, sample in kept)
        curves[name] = curve_of((at, [value for value in values if value is not None]) for at, values in shown)
    lengths = (end - begin for begin, end in records.windows.values())
    first_rank = [record for record in records.phases if record.rank == 0]
    peaks = [memory.peak_bytes for memory in plan.memory]
    expected = {"step_seconds": plan.expected_step_seconds, "rank_peak_bytes": max(peaks, default=None)}
    return Curves(
        by_name=curves,
        window_seconds=max(lengths, default=None),
        phase_seconds={phase.phase: after.monotonic - phase.monotonic for phase, after in pairwise(first_rank)},
        traced_seconds=dict(sorted(traced.items(), key=lambda item: -item[1])),
        expected={name: float(value) for name, value in expected.items() if value},
        expected_basis=plan.expected_step_basis,
    )


def curve_of(values: Iterable[tuple[float, Sequence[float]]], points: int = MAX_POINTS) -> Curve:
    """Median and percentiles of the values at each x; with more than `points` of them, neighbours share a point."""
    known = [(x, values_here) for x, values_here in values if values_here]
    return _shared(known, len(known), max((len(values_here) for _, values_here in known), default=0), points)


def _shared(values: Iterable[tuple[float, Sequence[float]]], count: int, most: int, points: int) -> Curve:
    """The curve of so many values with at most `most` of them at one x."""
    edge = 0.05 if most > 2 else 0.0
    each, remaining = max(1, -(-count // max(1, points))), iter(values)
    x, low, middle, high = [], [], [], []
    while neighbours := list(islice(remaining, each)):
        ordered = sorted(value for _, values_here in neighbours for value in values_here)
        x.append(neighbours[0][0])
        low.append(quantile(ordered, edge))
        middle.append(median(ordered))
        high.append(quantile(ordered, 1 - edge))
    return Curve(x=tuple(x), low=tuple(low), middle=tuple(middle), high=tuple(high), of=most)
