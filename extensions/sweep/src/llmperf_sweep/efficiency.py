"""Weak and strong scaling: efficiency over numbers of ranks, with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, variance
from typing import Literal

from llmperf.types.units import NonNegative, Positive

SCHEMA = "llmperf/scaling/1"
LEVEL = 0.95
MOST_DEGREES = 200
"""Degrees of freedom beyond which Student's t differs from this in the third digit only."""

Scaling = Literal["weak", "strong"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The runs with one number of ranks."""

    ranks: Positive
    """On all nodes."""
    nodes: Positive
    """Machines."""
    devices: Positive
    """Ranks on each node."""
    global_batch: Positive
    """Sequences in one optimiser step, over all ranks."""
    device_share: NonNegative
    """Part of one physical device that each rank had."""
    throughputs: tuple[NonNegative, ...]
    """token/p/s of each complete run."""
    runs: tuple[str, ...]
    """Run folders of the complete runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPoint:
    """One number of ranks against the smallest one."""

    measured: Measured
    """Its runs."""
    tokens_per_second: NonNegative | None
    """Throughput of all ranks, mean over the runs; None without a complete run."""
    speed_up: NonNegative | None
    """tokens_per_second / that of the smallest number of ranks."""
    ideal_speed_up: NonNegative
    """Ranks / smallest number of ranks."""
    efficiency: NonNegative | None
    """(tokens/s / ranks) / the same of the smallest number of ranks."""
    efficiency_low: NonNegative | None
    """95 % interval by Fieller's theorem; None with less than two runs on either side."""
    efficiency_high: NonNegative | None
    """Its upper end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingDocument:
    """`scaling.json`, beside the runs that it is computed from."""

    schema: str
    """Name and version of this document's schema."""
    case: str
    scaling: Scaling
    """`weak`: the global batch grows with the ranks; `strong`: it stays."""
    points: tuple[ScalingPoint, ...]
    """By number of ranks, ascending."""
    notes: tuple[str, ...] = ()
    """Notes that a reader of the figures needs."""


def scaling_document(case: str, scaling: Scaling, measured: Sequence[Measured], device: str) -> ScalingDocument:
    """The scaling of runs with different numbers of ranks, in ascending order."""
    base, points = measured[0], []
    for each in measured:
        ideal, ours, theirs = each.ranks / base.ranks, each.throughputs, base.throughputs
        known = bool(ours and theirs and fmean(theirs))
        efficiency = fmean(ours) / fmean(theirs) if known else None
        low, high = (ratio_interval(ours, theirs) if known and each is not base else None) or (None, None)
        points.append(
            ScalingPoint(
                measured=each,
                tokens_per_second=each.ranks * fmean(ours) if ours else None,
                speed_up=None if efficiency is None else efficiency * ideal,
                ideal_speed_up=ideal,
                efficiency=efficiency,
                efficiency_low=low,
                efficiency_high=high,
            )
        )
    notes = []
    if any(each.device_share < 1 for each in measured):
        notes.append(
            f"the ranks of a node share one {device}: more ranks on a node get no more hardware; a speed-up of 1 there"
            " means that sharing costs nothing, and the efficiency then is 1 / ranks"
        )
    few = [each.ranks for each in measured if len(each.throughputs) < 2]
    if few:
        notes.append(f"no interval where there are less than 2 complete runs: {', '.join(map(str, few))} ranks")
    wide = [point.measured.ranks for point in points[1:] if point.efficiency and point.efficiency_low is None]
    if wide and not few:
        ranks = ", ".join(map(str, wide))
        notes.append(f"no interval for {ranks} ranks: the runs differ too much for so few; ask for more with --repeat")
    return ScalingDocument(schema=SCHEMA, case=case, scaling=scaling, points=tuple(points), notes=tuple(notes))


def ratio_interval(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float] | None:
    """95 % interval of the ratio of the means of two groups of runs.

    None if either has less than two runs, or the interval is unbounded. Fieller's theorem (Fieller 1954), as Kalibera
    and Jones recommend for speed-ups (Rigorous benchmarking in reasonable time, 2013): the ratios r for which
    mean(ours) - r mean(theirs) does not differ from 0 by Student's t. The groups may have different variances; the
    degrees of freedom are those of Welch (1947) and Satterthwaite (1946), rounded down.
    """
    if min(len(ours), len(theirs)) < 2:
        return None
    a, b = fmean(ours), fmean(theirs)
    var_a, var_b = variance(ours) / len(ours), variance(theirs) / len(theirs)
    both = var_a + (a / b) ** 2 * var_b
    if not both:
        return a / b, a / b
    degrees = both**2 / (var_a**2 / (len(ours) - 1) + ((a / b) ** 2 * var_b) ** 2 / (len(theirs) - 1))
    t_squared = t_quantile(max(1, math.floor(degrees + 1e-9))) ** 2
    bottom = b * b - t_squared * var_b
    if bottom <= 0:
        return None
    root = math.sqrt(max(0.0, (a * b) ** 2 - bottom * (a * a - t_squared * var_a)))
    return max(0.0, (a * b - root) / bottom), (a * b + root) / bottom


@cache
def t_quantile(degrees: int) -> float:
    """The t that Student's distribution exceeds in absolute value with probability 1 - LEVEL, by bisection."""
    degrees = min(degrees, MOST_DEGREES)
    odd, low, high = degrees % 2, 0.0, math.pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        # P(|T| < t) for t = tan(angle) sqrt(degrees): Abramowitz and Stegun, 26.7.3 and 26.7.4
        sine, cosine, total = math.sin(angle), math.cos(angle), 0.0
        term = cosine if odd else 1.0
        for number in range(1 + odd, degrees, 2):
            total += term
            term *= cosine**2 * number / (number + 1)
        within = (angle + sine * total) * 2 / math.pi if odd else sine * total
        low, high = (angle, high) if within < LEVEL else (low, angle)
    return math.tan((low + high) / 2) * math.sqrt(degrees)
