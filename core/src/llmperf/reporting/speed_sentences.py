"""Comparisons of throughput in plain words: `B is 1.31 ± 0.05 times as fast as A (p = 0.029, 4 runs a side)`."""

from __future__ import annotations

from math import floor, log10

from llmperf.reporting.page import Line
from llmperf.reporting.words import sentence, word
from llmperf.results.comparison import LEVEL, Comparison

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


def has_interval(comparison: Comparison) -> bool:
    """Whether its sentence has a ± or a p."""
    return comparison.low is not None or comparison.p_value is not None


def speed_line(comparison: Comparison, name: str, reference: str, language: str = "en") -> Line:
    """Whether one side is faster than the reference, by how much and how sure that is."""

    values = {"name": name, "reference": reference, "times": times_text(comparison)}
    values |= {"basis": basis_text(comparison, language), "why": _why_not(comparison, language)}
    if comparison.verdict == "cannot tell":
        return Line(text=sentence(CANNOT_TELL, language, **values))
    if comparison.verdict == "no difference shown":
        return Line(text=sentence(NO_DIFFERENCE, language, **values))
    faster = comparison.verdict == "higher"
    medians_agree = comparison.ratio > 1 if faster else comparison.ratio < 1
    template = DIFFERENT if medians_agree else (MOSTLY_FASTER if faster else MOSTLY_SLOWER)
    return Line(text=sentence(template, language, **values), tone="faster" if faster else "slower")


def times_text(comparison: Comparison) -> str:
    """`1.31 ± 0.05`, or `1.31` where there is no interval."""
    if comparison.low is None or comparison.high is None:
        return f"{comparison.ratio:.2f}"
    half = (comparison.high - comparison.low) / 2
    digits = 2 if half == 0 else min(4, max(2, -floor(log10(half))))
    return f"{comparison.ratio:.{digits}f} ± {half:.{digits}f}"


def basis_text(comparison: Comparison, language: str = "en") -> str:
    """`p = 0.029, 4 runs a side`."""
    ours, theirs = len(comparison.ours), len(comparison.theirs)
    text = "{ours} runs a side" if ours == theirs else "{ours} and {theirs} runs"
    runs = sentence(text, language, ours=ours, theirs=theirs)
    return runs if comparison.p_value is None else f"p = {comparison.p_value:.2g}, {runs}"


def _why_not(comparison: Comparison, language: str) -> str:
    """Why no verdict is possible."""
    ours, theirs = len(comparison.ours), len(comparison.theirs)
    if min(ours, theirs) < 2:
        return word("a single run has no spread (measure with --repeat 4)", language)
    text = "{ours} and {theirs} runs are too few for p < {level}, 4 and 4 are enough"
    return sentence(text, language, ours=ours, theirs=theirs, level=f"{LEVEL:g}")
