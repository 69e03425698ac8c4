"""The gap between two figures as factors that multiply exactly to it, each with its evidence; the rest is unexplained.

Formulas come first: convention, work, peak. Where both sides have traced steps, these tell the rest: more or fewer
calls, slower calls, communication, gaps, by the logarithmic mean Divisia index (Ang 2004, "Decomposition analysis for
policymaking in energy"). Otherwise a single recorded cause has the measured gap; of several causes, each has what
estimates and readings say of it. A gap or a part of it that can be noise has no cause: it is unexplained.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import exp, hypot, log
from statistics import median
from typing import Literal

from llmperf.errors import UserError
from llmperf.types.result import OTHER_CPU_SHARE
from llmperf.types.tracing import COMMUNICATION, IDLE, REMAINDER
from llmperf_compare.comparison import LEVEL, rank_interval, rank_sum_tails
from llmperf_compare.differences import is_place

from llmperf_estimate.estimate import for_rank
from llmperf_estimate.explain_sides import Side
from llmperf_estimate.step_time import step_time
from llmperf_estimate.traces import analytic_traces

CAUSES = {
    "convention": "",
    "work": r"model|seq_len",
    "peak": r"device_model|precision",
    "recomputation": r"option_(gradient_checkpointing|recompute\w*)",
    "layout": r"(tensor|pipeline|data|context|expert|sequence)_parallel|sharding_\w+|nodes|devices_per_node"
    r"|micro_batch|gradient_accumulation|global_batch|option_(virtual_stages|pipeline_schedule)",
    "communication": r"interconnect|environment_(NCCL|RCCL|HCCL|BKCL|GLOO|UCX|FI)_\w+",
    "kernels": r"kernel_\w+|option_(attention|fused_ops|compile)|environment_\w+|driver",
    "software": r"framework|version_\w+",
    "host": r"host_cpu|dataset",
    "unexplained": "",
}
"""Causes in their order, with the values whose difference is one; the first that matches counts. `work`: FLOPs of a
token, of another model or sequence length; `software`: the framework and versions of packages."""
RECOMPUTATION = ("gradient_checkpointing", "recompute", "recompute_every")
NORMAL_90, NORMAL_95 = 1.645, 1.96
"""Half of the range of the middle 90 and 95 % of a normal distribution, in standard deviations."""
SMALL = 0.01
"""Factors nearer to 1 are not named, and figures that are this close are equal."""
Recorded = Mapping[str, list[str]]
"""Recorded differences by cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """One step of the waterfall; `evidence` has fields of documents, with their values."""

    cause: str
    factor: float
    how: str
    """`formula`, `traced`, `the only recorded cause`, `estimated`, `recorded`, or `the rest`."""
    evidence: tuple[str, ...] = ()
    low: float | None = None
    """Lower end of its interval over pairs of a run of each side; None for one run a side, and without a spread."""
    high: float | None = None

    @property
    def can_be_noise(self) -> bool:
        """Its interval contains 1."""
        return self.low is not None and self.high is not None and self.low <= 1 <= self.high


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


def explained(run: Side, against: Side, figure: str = "auto") -> Explanation:
    """Explain the gap of `tokens` or `mfu`; `auto`: MFU where a throughput is missing. UserError without a figure."""
    by_mfu = figure == "mfu" or (figure == "auto" and None in (run.tokens, against.tokens))
    (ours, theirs), others = ((run.mfu, against.mfu), (run.tokens, against.tokens))[:: 1 if by_mfu else -1]
    if ours is None or theirs is None:
        missing = run.name if ours is None else against.name
        raise UserError(f"{missing}: expected {'an MFU' if by_mfu else 'a throughput'}, found none")
    factors = list(_formulas(run, against, by_mfu))
    formulas = sum(log(each.factor) for each in factors)
    rest, differing, noise = log(ours / theirs) - formulas, _recorded(run, against), _noise(run, against)
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
        parts = [_traced(one, other, differing) for one, other in both]
        least = 0.0 if noise is None else max(noise, _traced_noise(run, against))
        found = [_spread(each, parts, counts) for each in _traced(run, against, differing).values()]
        found = [each for each in found if not (each.can_be_noise if each.low else abs(log(each.factor)) <= least)]
    if not found and not within:
        steps = _steps(run, against, differing)
        parts = [_modelled(one, other, differing, steps) for one, other, _ in pairs]
        modelled = _modelled(run, against, differing, steps)
        [(cause, texts), *further] = differing.items() or [("", [])]
        model = modelled.get(cause)
        if alike and cause and not further and ends and (model is None or log(model.factor) * rest >= 0):
            estimate = () if model is None else (f"{model.how} alone: {model.factor:.2f}x",)
            only = Factor(cause=cause, factor=exp(rest), how="the only recorded cause", evidence=(*texts, *estimate))
            parts = [{cause: replace(only, factor=exp(left))} for _, _, left in pairs]
            modelled = {cause: only}
        found = [_spread(each, parts, counts) for each in modelled.values()]
    found = [each for each in found if abs(log(each.factor)) > SMALL or each.cause in differing]
    factors = sorted([*factors, *found], key=lambda each: list(CAUSES).index(each.cause))
    left = log(ours / theirs) - sum(log(each.factor) for each in factors)
    unexplained = Factor(cause="unexplained", factor=exp(left), how="the rest")
    if len(pairs) == len(parts) > 1:
        taken = (sum(log(pair[each.cause].factor) for each in found if each.cause in pair) for pair in parts)
        ranged = rank_interval([whole - part for (_, _, whole), part in zip(pairs, taken, strict=True)], *counts)
        unexplained = replace(unexplained, low=exp(ranged[0]), high=exp(ranged[1]))
    named = {each.cause for each in factors}
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


def _recorded(run: Side, against: Side) -> Recorded:
    """Recorded differences by cause. What a published row leaves out is unknown, and no difference."""
    found: dict[str, list[str]] = defaultdict(list)
    if against.estimate is not None:
        return found
    results = [side.result for side in (run, against) if side.result is not None]
    notable = {f"version_{name}" for result in results for name in result.software.notable_packages}
    repeats = [side.repeats or (side,) for side in (against, run)]
    for name in dict.fromkeys([*against.values, *run.values]):
        theirs, ours = (list(dict.fromkeys(each.values.get(name) for each in side)) for side in repeats)
        known = len(results) == 2 or None not in (*theirs, *ours)
        if is_place(name.removeprefix("environment_"), next(iter([*filter(None, [*theirs, *ours])]), "")):
            continue
        if set(theirs) != set(ours) and known and (not name.startswith("version_") or name in notable):
            label = re.sub("^(option|environment)_", "", name)
            texts = [
                "/".join("unset" if value is None else str(value)[:60] for value in side) for side in (theirs, ours)
            ]
            for cause in [cause for cause, names in CAUSES.items() if re.fullmatch(names, name)][:1]:
                found[cause].append(f"{label} {' -> '.join(texts)}")
    busy, before = run.values.get("other_cpu_share"), against.values.get("other_cpu_share")
    if isinstance(busy, float) and isinstance(before, float) and abs(busy - before) > OTHER_CPU_SHARE:
        found["host"].append(f"other_cpu_share {before:.2f} -> {busy:.2f}")
    return found


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
            deviation = (steps.p95 - steps.p5) / (2 * NORMAL_90)
            widths.append(NORMAL_95 * deviation / steps.median / side.profile.steps**0.5)
    return hypot(*widths)


def _steps(run: Side, against: Side, differing: Recorded) -> list[tuple[float, float]]:
    """Steps by formulas, of the run, of it without its recomputation, and of the other's layout; empty if unknown.

    Each has the seconds in which the slowest stage computes for a token of a whole device, and the share that it waits.
    """
    rates, settings = run.rates or against.rates, differing.keys() & {"layout", "recomputation"}
    if not (settings and "work" not in differing and run.plan and against.plan and rates):
        return []
    ours, theirs, steps = run.plan.spec, against.plan.spec, []
    kept = {name: getattr(theirs.tuning, name) for name in RECOMPUTATION}
    between = replace(run.plan, spec=replace(ours, tuning=replace(ours.tuning, **kept)))
    same = replace(theirs, contract=replace(theirs.contract, precision=ours.contract.precision))
    with suppress(ValueError):  # a rate that is not known
        for plan in (run.plan, between, replace(against.plan, spec=same)):
            step = step_time(plan, analytic_traces(plan).stages, for_rank(rates, plan))[0]
            waits = step.communication_seconds + step.bubble_seconds
            each = step.compute_seconds * plan.layout.world_size * plan.device_share / plan.batch.tokens_per_step
            steps.append((each, waits / (step.compute_seconds + waits)))
    return steps if len(steps) == 3 else []


def _modelled(run: Side, against: Side, differing: Recorded, steps: Sequence[tuple[float, float]]) -> dict[str, Factor]:
    """What estimates and readings say of single causes."""
    found: dict[str, Factor] = {}
    sides, how = (run, against), "recorded"
    waits = [side.number("communication_share") for side in sides]
    busy = [side.values.get("other_cpu_share") for side in sides]
    if against.estimate is not None and (time := against.estimate.time) is not None:
        waits[1], busy[1], how = (time.communication_seconds + time.bubble_seconds) / time.seconds, 0.0, "estimated"
    for cause, place in (("recomputation", 0), ("layout", 1)):
        if steps and cause in differing:
            evidence = (*differing[cause], "steps by formulas with and without, as of llmperf estimate")
            factor = steps[place + 1][0] / steps[place][0]
            found[cause] = Factor(cause=cause, factor=factor, how="estimated", evidence=evidence)
    computed = [side.flops.get("hfu") for side in sides]
    if not steps and "recomputation" in differing and "work" not in differing and computed[0] and computed[1]:
        text = f"FLOPs that are computed (hfu): {computed[1]:.4g} -> {computed[0]:.4g} a token"
        evidence = (*differing["recomputation"], text)
        factor = computed[1] / computed[0]
        found["recomputation"] = Factor(cause="recomputation", factor=factor, how="formula", evidence=evidence)
    if steps and "layout" in differing and None in waits:
        waits, how = [steps[0][1], steps[2][1]], "estimated"
    if waits[0] is not None and waits[1] is not None:
        text = f"waiting for ranks {100 * waits[1]:.1f} % -> {100 * waits[0]:.1f} % of a step (waiting.share)"
        factor = (1 - waits[0]) / (1 - waits[1])
        found["communication"] = Factor(cause="communication", factor=factor, how=how, evidence=(text,))
    if run.plan is not None and run.plan.probe.on_cpu and isinstance(busy[0], float) and isinstance(busy[1], float):
        text = f"metrics.other_cpu_share {busy[1]:.2f} -> {busy[0]:.2f}, of the cores that the run computes on"
        if abs(busy[0] - busy[1]) > OTHER_CPU_SHARE:
            found["host"] = Factor(cause="host", factor=(1 - busy[0]) / (1 - busy[1]), how="recorded", evidence=(text,))
    return found


def _traced(run: Side, against: Side, differing: Recorded) -> dict[str, Factor]:
    """From the traced steps of both, or of the run and of its estimate: more calls, slower calls, gaps."""
    more = next((cause for cause in ("recomputation", "layout") if cause in differing), "kernels")
    slower = "host" if "host" in differing and not differing.keys() & {"kernels", "software"} else "kernels"
    busy, before = (float(side.values.get("other_cpu_share") or 0.0) for side in (run, against))
    if slower == "host" and busy != before and (busy > before) != ((run.tokens or 0.0) < (against.tokens or 0.0)):
        slower = "unexplained"  # a machine with less other work slows no run down
    by_kind = against.estimate is not None
    ours, theirs = _parts(run, by_kind), _parts(against, by_kind)
    changes: dict[str, dict[str, float]] = defaultdict(dict)
    for name in dict.fromkeys([*ours, *theirs]):
        (seconds, calls), (before, earlier) = ours.get(name, (0.0, 0.0)), theirs.get(name, (0.0, 0.0))
        cause = {COMMUNICATION: "communication", IDLE: "host", REMAINDER: "unexplained"}.get(name, more)
        change = seconds - before
        if calls and earlier and cause == more:
            added = (calls - earlier) * (seconds / calls + before / earlier) / 2
            changes[slower][f"each {name}"], change = change - added, added
        changes[cause][name] = change
    whole, reference = (sum(seconds for seconds, _ in side.values()) for side in (ours, theirs))
    mean = whole if abs(whole / reference - 1) < 1e-9 else (whole - reference) / log(whole / reference)
    found = {}
    for cause in [cause for cause in changes if cause != "unexplained"]:
        largest = sorted(changes[cause].items(), key=lambda each: -abs(each[1]))[:3]
        parts = ", ".join(f"{name} {100 * seconds / reference:+.1f} %" for name, seconds in largest)
        evidence = (*differing.get(cause, ()), f"parts of the step it is compared with: {parts} (profiles in records)")
        factor = exp(-sum(changes[cause].values()) / mean)
        found[cause] = Factor(cause=cause, factor=factor, how="traced", evidence=evidence)
    return found


def _parts(side: Side, by_kind: bool) -> dict[str, tuple[float, float]]:
    """Seconds and calls for each token of a device, by operation or kind, as traced shares of measured steps."""
    found: dict[str, tuple[float, float]] = {}
    if side.profile is not None:
        calls = {operation.name: operation.calls for operation in side.profile.operations}
        parts = {name: seconds for (name, _), seconds in side.profile.parts.items() if not (by_kind and name in calls)}
        parts |= {str(kind): seconds for kind, seconds in side.profile.seconds_by_kind.items() if by_kind}
        found = {name: (seconds, calls.get(name, 0.0)) for name, seconds in parts.items()}
    elif side.estimate is not None and (time := side.estimate.time) is not None:
        for operation in side.estimate.operations:
            found[operation.kind] = (found.get(operation.kind, (0.0, 0.0))[0] + (operation.seconds or 0.0), 0.0)
        found[COMMUNICATION] = (time.communication_seconds + time.bubble_seconds, 0.0)
        found[REMAINDER] = (time.loss_seconds, 0.0)
    whole = sum(seconds for seconds, _ in found.values()) * (side.tokens or 1.0)
    step = side.number("tokens_per_step") or 1.0
    return {name: (seconds / whole, calls / step) for name, (seconds, calls) in found.items()} if whole else {}
