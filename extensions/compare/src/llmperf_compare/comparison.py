"""Whether one group of runs is faster than another, or the difference could be chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from statistics import median
from typing import Literal

import numpy as np

from llmperf.results.statistics import quantile

LEVEL = 0.05
"""A difference is significant if chance alone gives one so large less often than this."""
MAX_ENUMERATED = 200_000
"""Largest number of divisions of the runs that are all counted; of more, a sample is drawn."""
RESAMPLES = 10_000
"""Draws of the bootstrap."""

Verdict = Literal["higher", "lower", "no difference shown", "cannot tell"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One figure in two groups of runs."""

    ours: tuple[float, ...]
    """The figure of each run of the first group."""
    theirs: tuple[float, ...]
    """Of each run of the second group, the baseline."""
    ratio: float
    """Median of the first / median of the second."""
    low: float | None
    """95 % interval of the ratio by bootstrap over runs; None if a group has only one run."""
    high: float | None
    """Its upper end."""
    p_value: float | None
    """How often chance alone gives a difference of ranks at least so large; None if a group has only one run."""
    verdict: Verdict
    """Of the first group against the second."""
    why: str
    """Reason for the verdict, in one line."""


def compare(ours: Sequence[float], theirs: Sequence[float]) -> Comparison:
    """Compare a positive figure between two groups of runs; neither is empty.

    The test is the exact two-sided rank-sum test (Wilcoxon 1945; Mann and Whitney 1947) with mid-ranks for ties; the
    interval is the percentile bootstrap of the ratio of medians (Efron 1979). Both take runs, not steps, as the
    independent observations. With so few runs that even a complete separation of the groups
    would not be significant, the verdict is `cannot tell`.
    """
    ratio = median(ours) / median(theirs)
    if min(len(ours), len(theirs)) < 2:
        return _comparison(ours, theirs, ratio, None, None, "cannot tell", "one run has no spread: --repeat 4")
    interval = bootstrap_interval(ours, theirs)
    smallest = 2 / comb(len(ours) + len(theirs), len(ours))
    if smallest > LEVEL:
        why = f"{len(ours)} and {len(theirs)} runs cannot be significant at {LEVEL:g}, four each can"
        return _comparison(ours, theirs, ratio, interval, None, "cannot tell", why)
    p_value = rank_sum_p(ours, theirs)
    shown = f"rank-sum test over {len(ours)} and {len(theirs)} runs: p = {p_value:.3g}"
    if p_value >= LEVEL:
        return _comparison(ours, theirs, ratio, interval, p_value, "no difference shown", shown)
    lead = rank_lead(mid_ranks([*ours, *theirs]), len(ours))
    medians_agree = ratio > 1 if lead > 0 else ratio < 1
    shown += "" if medians_agree else ", which the medians do not show"
    return _comparison(ours, theirs, ratio, interval, p_value, "higher" if lead > 0 else "lower", shown)


def _comparison(
    ours: Sequence[float],
    theirs: Sequence[float],
    ratio: float,
    interval: tuple[float, float] | None,
    p_value: float | None,
    verdict: Verdict,
    why: str,
) -> Comparison:
    low, high = interval or (None, None)
    return Comparison(
        ours=tuple(ours),
        theirs=tuple(theirs),
        ratio=ratio,
        low=low,
        high=high,
        p_value=p_value,
        verdict=verdict,
        why=why,
    )


def rank_lead(ranks: Sequence[float], size: int) -> float:
    """How far the ranks of the first `size` values sum up above what chance gives; below 0 where they are lower."""
    return sum(ranks[:size]) - size * (len(ranks) + 1) / 2


def rank_sum_p(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Two-sided p of the rank-sum test: exact, or over MAX_ENUMERATED drawn divisions where there are more."""
    ranks = mid_ranks([*ours, *theirs])
    size, total = len(ours), len(ranks)
    expected = size * (total + 1) / 2
    seen = abs(rank_lead(ranks, size))
    if comb(total, size) <= MAX_ENUMERATED:
        sums = [sum(chosen) for chosen in combinations(ranks, size)]
        return sum(abs(rank_sum - expected) >= seen - 1e-9 for rank_sum in sums) / len(sums)
    draws = np.random.default_rng(0)
    shuffled = draws.permuted(np.tile(ranks, (MAX_ENUMERATED // 10, 1)), axis=1)[:, :size].sum(axis=1)
    hits = int(np.count_nonzero(np.abs(shuffled - expected) >= seen - 1e-9))
    return (hits + 1) / (len(shuffled) + 1)


def mid_ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value, from 1; equal values share the mean of their ranks."""
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) + 1) / 2 for value in values]


def bootstrap_interval(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the ratio of medians, from RESAMPLES draws of a fixed generator."""
    draws = np.random.default_rng(0)
    ratios = _medians(ours, draws) / _medians(theirs, draws)
    ordered = sorted(float(ratio) for ratio in ratios)
    return quantile(ordered, 0.025), quantile(ordered, 0.975)


def _medians(values: Sequence[float], draws: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    array = np.asarray(values, dtype=np.float64)
    chosen = array[draws.integers(0, len(array), size=(RESAMPLES, len(array)))]
    return np.median(chosen, axis=1)
