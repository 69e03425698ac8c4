"""A figure of two groups of runs: whether it differs by more than chance, and the sentence that says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from math import comb, floor, log10
from statistics import NormalDist, median
from typing import Literal

from llmperf.reporting import sentence

from llmperf_compare.page import Line

LEVEL = 0.05
"""A difference is significant if chance alone gives one so large less often than this."""
MOST_PAIRS = 10_000
"""Largest number of pairs of runs for which p is exact; beyond it is that of the normal distribution."""

DIFFERENT = "{name} is {times} times as fast as {reference} ({basis})"
MOSTLY_FASTER = (
    "most runs of {name} are faster than those of {reference}, but their median is {times} times as fast ({basis})"
)
MOSTLY_SLOWER = (
    "most runs of {name} are slower than those of {reference}, but their median is {times} times as fast ({basis})"
)
NO_DIFFERENCE = "no difference shown: {name} is {times} times as fast as {reference}, which can be chance ({basis})"
CANNOT_TELL = "cannot tell: {name} measured {times} times as fast as {reference}, and {why}"
HOW = (
    "p is the share of chance orders of the runs that are at least as different (exact rank-sum test); the interval has"
    " the ratios that this test does not reject at 0.05: it contains 1 where p is 0.05 or more"
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
    """95 % interval of the ratio: all that the test does not reject; None with too few runs."""
    high: float | None
    """Its upper end."""
    p_value: float | None
    """How often chance alone gives a difference of ranks at least so large; None with too few runs."""
    verdict: Verdict
    """Verdict on the first group against the second: `higher` where the interval is above 1, `lower` below."""
    why: str
    """Reason for the verdict, in one line."""


def compare(ours: Sequence[float], theirs: Sequence[float]) -> Comparison:
    """Compare a positive figure between two groups of runs; neither is empty.

    The test is the exact two-sided rank-sum test (Wilcoxon 1945; Mann and Whitney 1947); ties count as orders that
    differ least. The interval inverts it for a shift of the logarithms (Hodges and Lehmann 1963): its ends are ratios
    of single runs. Both take runs, not steps, as the independent observations. With so few runs that even a
    complete separation of the groups would not be significant, there is neither.
    """
    ratio, runs = median(ours) / median(theirs), f"{len(ours)} and {len(theirs)} runs"
    made = partial(Comparison, ours=tuple(ours), theirs=tuple(theirs), ratio=ratio)
    single = min(len(ours), len(theirs)) < 2
    if single or 2 / comb(len(ours) + len(theirs), len(ours)) >= LEVEL:
        why = "one run has no spread: --repeat 4"
        if not single:
            why = f"{runs} cannot be significant at {LEVEL:g}, four each can"
        return made(low=None, high=None, p_value=None, verdict="cannot tell", why=why)
    ratios = [one / other for one in ours for other in theirs]
    tails, (low, high) = rank_sum_tails(len(ours), len(theirs)), rank_interval(ratios, len(ours), len(theirs))
    above, below = sum(each > 1 for each in ratios), sum(each < 1 for each in ratios)
    p_value = tails[min(len(ratios) // 2, len(ratios) - max(above, below))]
    return made(
        low=low,
        high=high,
        p_value=p_value,
        verdict="higher" if low > 1 else "lower" if high < 1 else "no difference shown",
        why=f"rank-sum test over {runs}: p = {p_value:.3g}",
    )


def rank_interval(pairs: Sequence[float], ours: int, theirs: int) -> tuple[float, float]:
    """95 % interval of a figure of two groups of runs, from that of each pair; with too few runs, their range."""
    ordered = sorted(pairs)
    outside = max(1, sum(p < LEVEL for p in rank_sum_tails(ours, theirs)))
    return ordered[outside - 1], ordered[-outside]


def rank_sum_tails(ours: int, theirs: int) -> list[float]:
    """Two-sided p of the rank-sum test, by the number of pairs, up to half of all, that are against the other pairs."""
    pairs, half = ours * theirs, ours * theirs // 2
    if pairs > MOST_PAIRS:
        normal = NormalDist(pairs / 2, (pairs * (ours + theirs + 1) / 12) ** 0.5)
        return [min(1.0, 2 * normal.cdf(count + 0.5)) for count in range(half + 1)]
    orders = [1, *[0] * half]  # the Gaussian binomial coefficient: orders of the runs by this number of pairs
    for size in range(1, ours + 1):
        for count in range(half, theirs + size - 1, -1):
            orders[count] -= orders[count - theirs - size]
        for count in range(size, half + 1):
            orders[count] += orders[count - size]
    return [min(1.0, 2 * below / comb(ours + theirs, ours)) for below in accumulate(orders)]


def limit_text(comparison: Comparison, name: str, reference: str, limit: float) -> str:
    """A sentence on a median below a limit: what was measured, and whether the runs suffice to show it."""
    ours, theirs = len(comparison.ours), len(comparison.theirs)
    runs = f"{ours} runs a side" if ours == theirs else f"{ours} and {theirs} runs"
    shown = f"{runs} are too few to show it: 4 a side can"
    if comparison.low is not None and comparison.high is not None:
        shown = f"{runs} show it" if comparison.high < limit else f"{runs} do not show it, it can be chance"
        shown += f" (95 % interval {comparison.low:.4f} to {comparison.high:.4f})"
    below = f"{name} measured {comparison.ratio:.4f} times as fast as {reference}, below the limit of {limit:g}"
    return f"{below}; {shown}"


def speed_line(comparison: Comparison, name: str, reference: str, language: str = "en") -> Line:
    """A sentence on whether one side is faster than the reference, by how much and how sure that is."""
    ours, theirs = len(comparison.ours), len(comparison.theirs)
    times, basis = f"{comparison.ratio:.2f}", "{ours} runs a side" if ours == theirs else "{ours} and {theirs} runs"
    values = {"name": name, "reference": reference, "basis": sentence(basis, language, ours=ours, theirs=theirs)}
    if comparison.low is None or comparison.high is None:
        why = "{ours} and {theirs} runs are too few for p < {level}, 4 and 4 are enough"
        if min(ours, theirs) < 2:
            why = "a single run has no spread (measure with --repeat 4)"
        values["why"] = sentence(why, language, ours=ours, theirs=theirs, level=f"{LEVEL:g}")
        return Line(text=sentence(CANNOT_TELL, language, **values, times=times))
    ends, width = (comparison.low, comparison.high), comparison.high - comparison.low
    digits = 2 if width == 0 else min(4, max(2, -floor(log10(width))))
    digits += 2 * any(end != 1 == round(end, digits) for end in ends)  # an end beside 1 is not shown as 1
    times, low, high = (f"{each:.{digits}f}" for each in (comparison.ratio, *ends))
    interval = sentence("95 % interval {low} to {high}", language, low=low, high=high)
    values |= {"times": times, "basis": f"{interval}, p = {comparison.p_value:.2g}, {values['basis']}"}
    if comparison.verdict == "no difference shown":
        return Line(text=sentence(NO_DIFFERENCE, language, **values))
    faster = comparison.verdict == "higher"
    medians_agree = comparison.ratio > 1 if faster else comparison.ratio < 1
    template = DIFFERENT if medians_agree else (MOSTLY_FASTER if faster else MOSTLY_SLOWER)
    return Line(text=sentence(template, language, **values), tone="faster" if faster else "slower")
