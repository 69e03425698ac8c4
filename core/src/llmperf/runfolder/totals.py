"""Sums over the records of a run, computed as they are read: steps, loss curve, ranks, experts."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import fsum, ldexp
from operator import add
from typing import TYPE_CHECKING

from llmperf.accounting.routing import mixture_layers_of
from llmperf.errors import UserError
from llmperf.types.result import LayerLoad, LossPoint

if TYPE_CHECKING:
    from llmperf.types.layout import Layout
    from llmperf.types.plan import Plan
    from llmperf.types.records import ExpertsRecord, PhaseRecord, StepRecord


class StepTotals:
    """Sums over steps. A step is complete when every rank has finished it."""

    def __init__(self, world: int, planned_tokens: int) -> None:
        self._world = world
        self._planned = planned_tokens
        self.curve = LossCurve()
        """Of the steps that all ranks have finished or whose loss is no number."""
        self.recorded = 0
        """Steps that at least one rank has finished."""
        self.most_ranks = 0
        """Largest number of ranks that have finished a step."""
        self.complete = 0
        """Complete steps."""
        self.tokens = 0
        """Of the complete steps."""
        self.fewer = 0
        """Complete steps with fewer tokens than planned."""
        self.first_fewer: int | None = None
        self.miscounted = 0
        """Complete steps with more tokens than planned, or with none."""
        self.first_miscounted: tuple[int, int] | None = None
        """The first of them, and its tokens."""
        self.measured_tokens = 0
        """Of the measured complete steps that no rank skipped."""
        self.skipped: int | None = 0
        """Measured complete steps without an update; None if no rank reports it for some step."""
        self.slowest_seconds = array("d")
        """The time of the slowest rank in each measured complete step: 8 bytes for each."""

    def add(self, step: int, ranks: Sequence[StepRecord]) -> None:
        """Add the next step with the records of its ranks."""
        self.recorded += 1
        self.most_ranks = max(self.most_ranks, len(ranks))
        complete = len(ranks) == self._world
        nonfinite = next((rank.nonfinite for rank in ranks if rank.nonfinite is not None), None)
        if complete or nonfinite is not None:
            self.curve.add(step, ranks, nonfinite)
        if not complete:
            return
        tokens = sum(rank.tokens for rank in ranks)
        self.complete += 1
        self.tokens += tokens
        if tokens < self._planned:
            self.fewer += 1
            self.first_fewer = step if self.first_fewer is None else self.first_fewer
        if tokens > self._planned or tokens <= 0 or any(rank.tokens < 0 for rank in ranks):
            self.miscounted += 1
            self.first_miscounted = self.first_miscounted or (step, tokens)
        if not ranks[0].measured:
            return
        reported = [rank.skipped for rank in ranks if rank.skipped is not None]
        if not any(reported):
            self.measured_tokens += tokens
        if not reported:
            self.skipped = None
        elif self.skipped is not None:
            self.skipped += any(reported)
        self.slowest_seconds.append(max([rank.step_seconds for rank in ranks]))


Span = tuple[float, float]
"""Begin and end, seconds of the monotonic clock of one node."""


def measured_windows(phases: Iterable[PhaseRecord], layout: Layout) -> dict[int, Span]:
    """Spans in which every rank of a node was in its measured window, by node."""
    begins: dict[int, list[float]] = defaultdict(list)
    ends: dict[int, list[float]] = defaultdict(list)
    for phase in phases:
        if phase.phase == "measuring":
            begins[layout.node_of(phase.rank)].append(phase.monotonic)
        elif phase.phase in ("evaluating", "done"):
            ends[layout.node_of(phase.rank)].append(phase.monotonic)
    spans = {node: (max(begins[node]), min(ends[node])) for node in sorted(begins) if node in ends}
    return {node: span for node, span in spans.items() if span[0] < span[1]}


MOST_EVEN_POINTS = 10_000
"""Points at even distances. A shorter run has all its steps in the curve."""
MOST_NONFINITE_POINTS = 1_000
"""Further points whose loss is no number, the first of them."""


class LossCurve:
    """Every 1st, 2nd, 4th, 8th ... of the steps that are added, the last one, and those whose loss is no number."""

    def __init__(self) -> None:
        self.every = 1
        self._count = 0
        self._even: list[LossPoint] = []
        self._nonfinite: list[LossPoint] = []
        self._last: tuple[int, Sequence[StepRecord], str | None] | None = None

    def add(self, step: int, ranks: Sequence[StepRecord], nonfinite: str | None) -> None:
        """Add the next step with the records of its ranks, and what its loss was if it was no number."""
        even = self._count % self.every == 0
        if even and len(self._even) == MOST_EVEN_POINTS:
            self._even, self.every = self._even[::2], 2 * self.every
            even = self._count % self.every == 0
        few = nonfinite is not None and len(self._nonfinite) < MOST_NONFINITE_POINTS
        if even or few:
            point = _point(step, ranks, nonfinite)
            self._even += [point] * even
            self._nonfinite += [point] * few
        self._last = step, ranks, nonfinite
        self._count += 1

    def points(self) -> tuple[LossPoint, ...]:
        """The curve so far, in the order of steps."""
        if self.every == 1 or self._last is None:
            return tuple(self._even)
        points = {*self._even, *self._nonfinite, _point(*self._last)}
        return tuple(sorted(points, key=lambda point: point.step))


def _point(step: int, ranks: Sequence[StepRecord], nonfinite: str | None) -> LossPoint:
    return LossPoint(
        step=step,
        loss=mean_loss(ranks) if nonfinite is None else None,
        nonfinite=nonfinite,
        grad_norm=_mean([(rank.grad_norm, 1) for rank in ranks if rank.grad_norm is not None]),
    )


def mean_loss(ranks: Sequence[StepRecord]) -> float | None:
    """Over tokens, as ranks have unequally many where sequences are padded; over ranks where none tells its tokens."""
    known = [(rank.loss, rank.tokens) for rank in ranks if rank.loss is not None]
    tokens = {count for _, count in known}
    return _mean(known if len(tokens) > 1 and min(tokens) >= 0 else [(loss, 1) for loss, _ in known])


def _mean(weighted: Sequence[tuple[float, int]]) -> float | None:
    """The mean of values with their weights; values near the largest float do not overflow on the way."""
    weights = sum(weight for _, weight in weighted)
    return ldexp(fsum(ldexp(value, -64) * weight for value, weight in weighted) / weights, 64) if weighted else None


SHAPE_DIGITS = 9
"""Decimals of a step's time as a multiple of the first one: times that were multiplied agree in more."""
Range = tuple[float, float]
"""Lowest and highest value."""


class RankTotals:
    """Sums over the steps that one rank recorded."""

    def __init__(self, rank: int) -> None:
        from hashlib import blake2b  # takes 3 ms, and records are not read by every command

        self.rank = rank
        self.steps = 0
        self.measured_steps = 0
        self.measured_tokens = 0
        """Of its measured steps, without those that it skipped."""
        self.measured_seconds = 0.0
        """Sum of the times of its measured steps."""
        self.losses = False
        """Whether it reported a loss."""
        self.first: StepRecord | None = None
        """Step 1; None if it was not recorded."""
        self.nonfinite = False
        """Whether it reported a loss that was no number."""
        self.last: StepRecord | None = None
        self.rising = True
        """Whether its steps are recorded in rising order by number and time."""
        self.warmup_moments: Range | None = None
        """Of the steps before the measured ones: earliest and latest end, by its host's monotonic clock."""
        self.measured_moments: Range | None = None
        """The same of the measured steps."""
        self.first_seconds: float | None = None
        """Time of its first measured step."""
        self.first_again = 0
        """Later measured steps that took exactly as long as the first."""
        self._often, self._margin = 0.0, 0
        self._shape, self._times = blake2b(digest_size=16), blake2b(digest_size=16)

    def add(self, records: Sequence[StepRecord]) -> None:
        """Add the next records, in the order of the file."""
        measured = [record for record in records if record.measured]
        if self.last is None and records and records[0].step == 1:
            self.first = records[0]
        times = [record.step_seconds for record in measured]
        self.steps += len(records)
        self.measured_steps += len(measured)
        self.measured_tokens += sum([record.tokens for record in measured if not record.skipped])
        self.measured_seconds += sum(times)
        self.nonfinite = self.nonfinite or any(record.nonfinite is not None for record in records)
        self.losses = self.losses or self.nonfinite or any(record.loss is not None for record in records)
        # notice records out of order, of which there are none in a healthy file
        if self.rising:
            before = [self.last] if self.last is not None else []
            for earlier, later in pairwise([*before, *records]):
                if later.step <= earlier.step or later.monotonic < earlier.monotonic:
                    self.rising = False
                    break
        self.last = records[-1] if records else self.last
        self.measured_moments = _widened(self.measured_moments, [record.monotonic for record in measured])
        if len(measured) < len(records):
            warmup = [record.monotonic for record in records if not record.measured]
            self.warmup_moments = _widened(self.warmup_moments, warmup)
        self._times.update(array("d", times).tobytes())
        if self.first_seconds is None and times:
            self.first_seconds, self.first_again = times[0], -1
        first = self.first_seconds
        if first:
            self.first_again += times.count(first)
            self._shape.update(array("d", [round(seconds / first, SHAPE_DIGITS) for seconds in times]).tobytes())
        # boyer and Moore's majority vote
        often, margin = self._often, self._margin
        for seconds in times:
            if seconds == often:
                margin += 1
            elif margin:
                margin -= 1
            else:
                often, margin = seconds, 1
        self._often, self._margin = often, margin

    def may_repeat(self, share: float) -> bool:
        """Check whether so large a share of its measured steps, over one half, may have one and the same time."""
        return self._margin >= (2 * share - 1) * self.measured_steps

    @property
    def shape_digest(self) -> bytes:
        """Equal for two ranks whose measured steps took equally long up to one factor, step by step."""
        return self._shape.digest()

    @property
    def times_digest(self) -> bytes:
        """Equal for two ranks whose measured steps took equally long, one by one."""
        return self._times.digest()


def _widened(known: Range | None, values: Sequence[float]) -> Range | None:
    if not values:
        return known
    lowest, highest = min(values), max(values)
    return (lowest, highest) if known is None else (min(known[0], lowest), max(known[1], highest))


MOST_LAYERS = 2**16


class ExpertTotals:
    """Sums by layer; what a rank records must have the shape of the model."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._layers: dict[int, tuple[int, ...]] = {}
        self._ranks: set[int] = set()

    def add(self, record: ExpertsRecord) -> None:
        """Add what a rank recorded; UserError if it does not fit the plan, or is its second record."""
        spec, layout, mixture = self._plan.spec, self._plan.layout, self._plan.spec.model.mixture
        where = f"records of rank {record.rank}: experts"
        if mixture is None or record.rank >= layout.world_size or layout.coordinate(record.rank, "tensor"):
            raise UserError(f"{where}: expected none of this rank by the plan, found one")
        if record.rank in self._ranks:
            raise UserError(f"{where}: expected one record, found several")
        if max(spec.model.layers, spec.tuning.virtual_stages) + spec.model.multi_token_layers > MOST_LAYERS:
            raise UserError(f"{where}: expected at most {MOST_LAYERS} layers in the plan, found more")
        places = mixture_layers_of(spec.model, layout, spec.tuning.virtual_stages, record.rank)
        if len(record.layers) != len(places) or any(len(layer) != mixture.experts for layer in record.layers):
            raise UserError(f"{where}: expected {len(places)} layers of {mixture.experts} counts, found others")
        self._ranks.add(record.rank)
        for place, counts in zip(places, record.layers, strict=True):
            known = self._layers.get(place)
            self._layers[place] = counts if known is None else tuple(map(add, known, counts))

    def loads(self) -> tuple[LayerLoad, ...]:
        """The load of each layer with experts; empty unless all ranks with data of their own have recorded them."""
        layout = self._plan.layout
        if len(self._ranks) < layout.world_size // layout.tensor_parallel:
            return ()
        return tuple(
            LayerLoad(layer=layer, tokens=tokens, imbalance=imbalance(tokens))
            for layer, tokens in sorted(self._layers.items())
        )


def imbalance(tokens: Sequence[int]) -> float | None:
    """Most tokens of an expert / mean of all; None without tokens."""
    return max(tokens) * len(tokens) / sum(tokens) if any(tokens) else None
