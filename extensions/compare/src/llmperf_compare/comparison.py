"""A figure of two groups of runs: whether it differs by more than chance, and the sentence that says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, floor, log10
from statistics import median
from typing import Literal

import numpy as np
from llmperf.reporting import Line, quantile, sentence

LEVEL = 0.05
"""A difference is significant if chance alone gives one so large less often than this."""
MAX_ENUMERATED = 200_000
"""Largest number of divisions of the runs that are all counted; of more, a sample is drawn."""
RESAMPLES = 10_000
"""Draws of the bootstrap."""

DIFFERENT = "{name} is {times} times as fast as {reference} ({basis})"
MOSTLY_FASTER = (
    "most runs of {name} are faster than those of {reference}, but their median is {times} times as fast ({basis})"
)
MOSTLY_SLOWER = (
    "most runs of {name} are slower than those of {reference}, but their median is {times} times as fast ({basis})"
)
NO_DIFFERENCE = "no difference shown: {name} is {times} times as fast as {reference}, which can be chance ({basis})"
CANNOT_TELL = "cannot tell whether {name} is faster than {reference}: {why}; measured: {times} times as fast"
HOW = (
    "± is half of the 95 % interval of the ratio of medians (bootstrap over runs); p is the share of chance orders of"
    " the runs that are at least as different (exact rank-sum test)"
)
"""How the figures of a sentence were made."""

Verdict = Literal["higher", "lower", "no difference shown", "cannot tell"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One figure in two groups of runs."""

    ours: tuple[float, ...]
    """The figure of each run of the first group."""
    theirs: tuple[float, ...]
    """Figures of the runs of the second group, the baseline."""
    ratio: float
    """Median of the first / median of the second."""
    low: float | None
    """95 % interval of the ratio by bootstrap over runs; None if a group has only one run."""
    high: float | None
    """Its upper end."""
    p_value: float | None
    """How often chance alone gives a difference of ranks at least so large; None if a group has only one run."""
    verdict: Verdict
    """Verdict on the first group against the second."""
    why: str
    """Reason for the verdict, in one line."""


def compare(ours: Sequence[float], theirs: Sequence[float]) -> Comparison:
    """Compare a positive figure between two groups of runs; neither is empty.

    The test is the exact two-sided rank-sum test (Wilcoxon 1945; Mann and Whitney 1947) with mid-ranks for ties; the
    interval is the percentile bootstrap of the ratio of medians (Efron 1979). Both take runs, not steps, as the
    independent observations. With so few runs that even a complete separation of the groups
    would not be significant, the verdict is `cannot tell`.
    """
    interval: tuple[float, float] | tuple[None, None] = (None, None)
    p_value: float | None = None
    verdict: Verdict = "cannot tell"
    ratio = median(ours) / median(theirs)
    if min(len(ours), len(theirs)) < 2:
        why = "one run has no spread: --repeat 4"
    else:
        interval = bootstrap_interval(ours, theirs)
        if 2 / comb(len(ours) + len(theirs), len(ours)) > LEVEL:
            why = f"{len(ours)} and {len(theirs)} runs cannot be significant at {LEVEL:g}, four each can"
        else:
            p_value = rank_sum_p(ours, theirs)
            why = f"rank-sum test over {len(ours)} and {len(theirs)} runs: p = {p_value:.3g}"
            verdict = "no difference shown"
            if p_value < LEVEL:
                higher = rank_lead(mid_ranks([*ours, *theirs]), len(ours)) > 0
                verdict = "higher" if higher else "lower"
                why += "" if (ratio > 1 if higher else ratio < 1) else ", which the medians do not show"
    return Comparison(
        ours=tuple(ours),
        theirs=tuple(theirs),
        ratio=ratio,
        low=interval[0],
        high=interval[1],
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


def speed_line(comparison: Comparison, name: str, reference: str, language: str = "en") -> Line:
    """A sentence on whether one side is faster than the reference, by how much and how sure that is."""
    ours, theirs = len(comparison.ours), len(comparison.theirs)
    times = f"{comparison.ratio:.2f}"  # `1.31 ± 0.05` where there is an interval
    if comparison.low is not None and comparison.high is not None:
        half = (comparison.high - comparison.low) / 2
        digits = 2 if half == 0 else min(4, max(2, -floor(log10(half))))
        times = f"{comparison.ratio:.{digits}f} ± {half:.{digits}f}"
    values = {"name": name, "reference": reference, "times": times}
    if comparison.verdict == "cannot tell":
        why = "{ours} and {theirs} runs are too few for p < {level}, 4 and 4 are enough"
        if min(ours, theirs) < 2:
            why = "a single run has no spread (measure with --repeat 4)"
        values["why"] = sentence(why, language, ours=ours, theirs=theirs, level=f"{LEVEL:g}")
        return Line(text=sentence(CANNOT_TELL, language, **values))
    basis = "{ours} runs a side" if ours == theirs else "{ours} and {theirs} runs"
    values["basis"] = sentence(basis, language, ours=ours, theirs=theirs)
    if comparison.p_value is not None:
        values["basis"] = f"p = {comparison.p_value:.2g}, {values['basis']}"
    if comparison.verdict == "no difference shown":
        return Line(text=sentence(NO_DIFFERENCE, language, **values))
    faster = comparison.verdict == "higher"
    medians_agree = comparison.ratio > 1 if faster else comparison.ratio < 1
    template = DIFFERENT if medians_agree else (MOSTLY_FASTER if faster else MOSTLY_SLOWER)
    return Line(text=sentence(template, language, **values), tone="faster" if faster else "slower")
