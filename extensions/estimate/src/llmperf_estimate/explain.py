"""The gap between two figures as factors that multiply exactly to it, each with its evidence; the rest is unexplained.

Formulas come first: convention, work, peak. Where both sides have traced steps, these tell the rest: more or fewer
calls, slower calls, communication, gaps, by the logarithmic mean Divisia index (Ang 2004, "Decomposition analysis for
policymaking in energy"). Otherwise a single recorded cause has the measured gap; of several causes, each has what
estimates and readings say of it. A gap or a part of it that can be noise has no cause: it is unexplained.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, hypot, log
from statistics import median
from typing import Literal

from llmperf.errors import UserError
from llmperf_compare.comparison import LEVEL, rank_interval, rank_sum_tails

from llmperf_estimate.explain_causes import CAUSES, SMALL, Factor, modelled, recorded, steps_by_formulas, traced_causes
from llmperf_estimate.explain_sides import Side


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The figure of a run against another one. The product of all factors is the ratio; the last is `unexplained`."""

    run: str
    against: str
    figure: Literal["token/s of a device", "MFU"]
    value: float
    against_value: float
    ratio: float
    factors: tuple[Factor, ...]
    unquantified: tuple[str, ...]
    """Recorded differences whose effect is not known."""
    other_ratio: float | None
    """Ratio of the other figure, throughput or MFU."""
    runs: tuple[int, int]
    """Runs of each side."""
    low: float | None
    """Lower end of the interval of the ratio; None where a side was not measured."""
    high: float | None
    interval: Literal["95 %", "range", "steps"] | None
    """Over runs, as of `llmperf compare`; the range of pairs of too few runs; of one run a side, by their steps."""
    within_noise: bool
    """The interval has the ratio that follows from formulas alone: there is no difference to explain."""
    traced_ratio: float | None
    """Ratio by traced steps that do not explain the measured one, and are not used."""
    estimate_error: float | None = None
    """Largest expected error of the estimate that is a side; None without one."""


def explained(run: Side, against: Side, figure: str = "auto") -> Explanation:
    """Explain the gap of `tokens` or `mfu`; `auto`: MFU where a throughput is missing. UserError without a figure."""
    by_mfu = figure == "mfu" or (figure == "auto" and None in (run.tokens, against.tokens))
    (ours, theirs), others = ((run.mfu, against.mfu), (run.tokens, against.tokens))[:: 1 if by_mfu else -1]
    if ours is None or theirs is None:
        missing = run.name if ours is None else against.name
        raise UserError(f"{missing}: expected {'an MFU' if by_mfu else 'a throughput'}, found none")
    factors = list(_formulas(run, against, by_mfu))
    formulas = sum(log(each.factor) for each in factors)
    rest, differing, noise = log(ours / theirs) - formulas, recorded(run, against), _noise(run, against)
    runs = [[(each, value) for each in side.repeats or (side,) if (value := each.mfu if by_mfu else each.tokens)]
            for side in (run, against)]  # fmt: skip
    pairs = [(one, other, log(value / before) - formulas) for one, value in runs[0] for other, before in runs[1]]
    counts = (len(runs[0]), len(runs[1]))
    ends = None if noise is None else (rest - noise, rest + noise)
    interval: Literal["95 %", "range", "steps"] | None = None if noise is None else "steps"
    if len(pairs) > 1:
        ends = rank_interval([left for _, _, left in pairs], *counts)
        interval = "95 %" if min(counts) > 1 and rank_sum_tails(*counts)[0] < LEVEL else "range"
    within = ends is not None and ends[0] <= 0 <= ends[1]
    alike = not differing.keys() & {"work", "peak"}
    traced = alike and run.profile is not None and bool(against.profile or against.estimate)
    traced_ratio = _unlike(run, against) if traced else None
    found, parts = list[Factor](), list[Mapping[str, Factor]]([{}] * len(pairs))
    if traced and traced_ratio is None and not within:
        both = [(one, other) for one, other, _ in pairs if one.profile and (other.profile or other.estimate)]
        parts = [traced_causes(one, other, differing) for one, other in both]
        least = 0.0 if noise is None else max(noise, _traced_noise(run, against))
        found = [_spread(each, parts, counts) for each in traced_causes(run, against, differing).values()]
        found = [each for each in found if not (each.can_be_noise if each.low else abs(log(each.factor)) <= least)]
    if not found and not within:
        steps = steps_by_formulas(run, against, differing)
        parts = [modelled(one, other, differing, steps) for one, other, _ in pairs]
        known = modelled(run, against, differing, steps)
        [(cause, texts), *further] = differing.items() or [("", [])]
        model = known.get(cause)
        if alike and cause and not further and ends and (model is None or log(model.factor) * rest >= 0):
            estimate = () if model is None else (f"{model.how} alone: {model.factor:.2f}x",)
            only = Factor(cause=cause, factor=exp(rest), how="the only recorded cause", evidence=(*texts, *estimate))
            parts = [{cause: replace(only, factor=exp(left))} for _, _, left in pairs]
            known = {cause: only}
        found = [_spread(each, parts, counts) for each in known.values()]
    found = [each for each in found if abs(log(each.factor)) > SMALL or each.cause in differing]
    factors = sorted([*factors, *found], key=lambda each: list(CAUSES).index(each.cause))
    left = log(ours / theirs) - sum(log(each.factor) for each in factors)
    unexplained = Factor(cause="unexplained", factor=exp(left), how="the rest")
    if len(pairs) == len(parts) > 1:
        taken = (sum(log(pair[each.cause].factor) for each in found if each.cause in pair) for pair in parts)
        ranged = rank_interval([whole - part for (_, _, whole), part in zip(pairs, taken, strict=True)], *counts)
        unexplained = replace(unexplained, low=exp(ranged[0]), high=exp(ranged[1]))
    named = {each.cause for each in factors}
    estimated = next((side.estimate.expected_error for side in (run, against) if side.estimate is not None), None)
    return Explanation(
        run=run.name,
        against=against.name,
        value=ours,
        against_value=theirs,
        ratio=ours / theirs,
        figure="MFU" if by_mfu else "token/s of a device",
        factors=(*factors, unexplained),
        unquantified=tuple(text for cause, texts in differing.items() if cause not in named for text in texts),
        other_ratio=others[0] / others[1] if others[0] and others[1] else None,
        runs=counts,
        low=None if ends is None else exp(ends[0] + formulas),
        high=None if ends is None else exp(ends[1] + formulas),
        interval=interval,
        within_noise=within,
        traced_ratio=traced_ratio,
        estimate_error=None if estimated is None else estimated.throughput_largest,
    )


def _spread(factor: Factor, pairs: Sequence[Mapping[str, Factor]], counts: tuple[int, int]) -> Factor:
    """A factor with its interval over pairs of runs."""
    known = [pair[factor.cause].factor for pair in pairs if factor.cause in pair]
    if len(known) < 2 or len(known) != counts[0] * counts[1] or max(known) == min(known):
        return factor
    low, high = rank_interval(known, *counts)
    return replace(factor, low=low, high=high)


def _unlike(run: Side, against: Side) -> float | None:
    """Ratio by traced steps, without profilers' overhead in common, if it does not explain the measured one."""
    from llmperf_trace.differences import is_explained

    slower = []
    for side in (run, against):
        known = [(each.profile, each.result.metrics.step_seconds) for each in side.repeats or (side,) if each.result]
        slower.append([log(profile.step_seconds / steps.median) for profile, steps in known if profile and steps])
    if not all(slower) or not (run.tokens and against.tokens):
        return None
    measured = log(against.tokens / run.tokens)
    traced = measured + median(slower[0]) - median(slower[1])
    return None if is_explained(traced, measured) else exp(-traced)


def _formulas(run: Side, against: Side, by_mfu: bool) -> Iterator[Factor]:
    """Convention and peak basis of MFU; work and peak of throughput."""
    sides, flops = (run, against), [side.flops.get("nominal") for side in (run, against)]
    same_device = all(run.values.get(name) == against.values.get(name) for name in ("device_model", "precision"))
    if by_mfu:
        (own, how), (other, their_how) = map(_convention, sides)
        if own != other:
            yield Factor(cause="convention", factor=own / other, how="formula", evidence=(how, their_how))
    elif flops[0] and flops[1] and abs(flops[1] / flops[0] - 1) > SMALL / 10:
        counts = zip(sides, flops, strict=True)
        evidence = tuple(f"{side.name}: {side.values.get('model')}, {each:.4g} FLOP/token" for side, each in counts)
        yield Factor(cause="work", factor=flops[1] / flops[0], how="formula", evidence=evidence)
    reached = [(side.tokens or 0.0) * (side.flops.get("nominal") or 0.0) for side in sides]
    peaks = [side.peak for side, each in zip(sides, reached, strict=True) if side.peak and each <= side.peak[0]]
    if len(peaks) == 2 and same_device == by_mfu and peaks[0][0] != peaks[1][0]:  # more than its peak: it had another
        named = zip(sides, peaks, strict=True)
        evidence = tuple(f"{side.name}: {each / 1e12:.4g} TFLOP/s ({source})" for side, (each, source) in named)
        ratio = (peaks[0][0] / peaks[1][0]) ** (-1 if by_mfu else 1)
        yield Factor(cause="peak", factor=ratio, how="formula", evidence=evidence)


def _convention(side: Side) -> tuple[float, str]:
    """FLOPs by the convention that an MFU follows / nominal FLOPs; 1 if it is nominal, or not recognised."""
    nominal, tokens, peak, mfu = side.flops.get("nominal"), side.tokens, side.peak, side.mfu
    if not (nominal and tokens and peak and mfu):
        return 1.0, f"{side.name}: convention not known"
    printed = mfu * peak[0] / tokens
    fitting = sorted((name != "nominal", abs(flops / printed - 1), name) for name, flops in side.flops.items()
                     if abs(flops / printed - 1) <= SMALL)  # fmt: skip
    name = fitting[0][2] if fitting else "no known convention"
    how = f"{mfu:.4g} = {tokens:.6g} token/s x {printed:.4g} FLOP / {peak[0]:.4g} FLOP/s"
    return side.flops.get(name, nominal) / nominal, f"{side.name}: MFU {how}, {name}"


def _noise(run: Side, against: Side) -> float | None:
    """Relative half width of the 95 % interval of the ratio, by the steps of one run a side; None unless measured.

    With less than 20 steps, half of the spread of the steps.
    """
    steps = [side.result.metrics.step_seconds for side in (run, against) if side.result is not None]
    widths = []
    for each in [each for each in steps if each is not None]:
        low, high = (each.p5, each.p95) if None in (each.mean_low, each.mean_high) else (each.mean_low, each.mean_high)
        widths.append(((high or 0.0) - (low or 0.0)) / ((high or 0.0) + (low or 0.0)))
    return hypot(*widths) if len(widths) == 2 else None


def _traced_noise(run: Side, against: Side) -> float:
    """The same of the few steps that one run a side has traced, if these vary as the measured ones."""
    widths = [0.0]
    for side in (run, against):
        if side.profile is not None and side.result is not None and (steps := side.result.metrics.step_seconds):
            half = (steps.p95 - steps.p5) / 2 * 1.96 / 1.645  # of 95 % of the steps, from that of 90 %, if normal
            widths.append(half / steps.median / side.profile.steps**0.5)
    return hypot(*widths)
