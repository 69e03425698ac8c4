"""The figures that a submission claims beside those of its rerun; only what is better than measured here counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import median, quantiles

from llmperf import busy_parts, disturbances
from llmperf.types import Text
from llmperf.types.result import UNEVEN_QUANTILES, Result

from llmperf_verify.verification import Claim, ClaimCheck

FEWEST_STEPS = 3
"""Steps from the second on that speed is compared by."""
REACHED = 0.97
"""A claimed step time is possible here if the fastest step of the rerun took at most this part of it."""
TOLERANCE: Mapping[Claim, float] = {
    "speed": 1.2,
    "memory": 1.25,
    "device-memory": 1.25,
    "energy": 1.25,
    "peak": 1.2,
}
"""Factor by which a claim may be better than here."""
ALIKE: Mapping[Claim, float] = {**TOLERANCE, "speed": 1.17, "memory": 1.05}
"""The same between machines that differ in nothing that is known, both idle: the largest of honest reruns were 1.16 in
speed, but for one that the second rerun did not repeat, and 1.007 in memory."""
MOST_DIFFERENCES = 5
"""Differences that are named."""
GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A run to be compared: the submission, or its rerun."""

    result: Result
    """Its figures. Those of a rerun are of its steps from the second on; it is kept nowhere."""
    step_seconds: Mapping[int, float]
    """Durations of its first steps, by number; each counts with its slowest rank."""
    cores: int | None
    """Cores of its host that it could use; None if unknown."""
    on_cpu: bool
    """The devices are the cores of the host."""


def claim_checks(submitted: Measured, here: Measured, other_layout: str | None) -> tuple[ClaimCheck, ...]:
    """Each claimed figure, compared or with the reason why not, such as `other_layout` than the submission's."""
    there, mine, busy = submitted.result, here.result, _busy(here.result)
    theirs, ours, machine = there.hardware, mine.hardware, None
    if (theirs.vendor, theirs.device_model) != (ours.vendor, ours.device_model):
        template = "it ran on {} ({}), the rerun on {} ({})"
        machine = Text(template, theirs.device_model, theirs.vendor, ours.device_model, ours.vendor)
    elif here.on_cpu and submitted.cores != here.cores:
        cores = submitted.cores or "unknown", here.cores or "unknown"
        machine = Text("it ran on {} cores, the rerun on {} cores", *cores)
    options = sorted(name for name in {**there.framework, **mine.framework}
                     if there.framework.get(name) != mine.framework.get(name))  # fmt: skip
    setup = machine or other_layout
    if setup is None and there.contract.precision != mine.contract.precision:
        setup = Text("it is in {}, the rerun in {}", there.contract.precision, mine.contract.precision)
    elif setup is None and options:
        setup = Text("a rerun takes no framework options from a submission: {}", ", ".join(options))
    hosts = [(run.software.os, run.software.kernel, run.hardware.host_memory_bytes) for run in (there, mine)]
    same = hosts[0] == hosts[1] and submitted.cores == here.cores and not differences(there, mine)
    alike = busy is None and same and next(disturbances(there), None) is None
    tolerance = ALIKE if alike else TOLERANCE
    checks = [_speed(submitted, here, setup or busy, tolerance)]
    ranks = {rank.rank: rank.peak_bytes for rank in there.metrics.rank_memory if rank.peak_bytes}
    if ranks:
        known = {rank.rank: rank.peak_bytes for rank in mine.metrics.rank_memory if rank.peak_bytes}
        rank = max(ranks.keys() & known.keys(), key=lambda rank: known[rank] / ranks[rank], default=None)
        if rank is None:
            checks.append(_lower("memory", 0, None, setup, str))
        else:  # the rank whose peak is lowest by that of the same rank here
            peaks, on = (ranks[rank], known[rank]), rank
            checks.append(
                _lower(
                    "memory", *peaks, setup, lambda size: Text("{:,.0f} MiB on rank {}", size / 2**20, on), tolerance
                )
            )
    used = there.metrics.device_memory_used_bytes
    if used and not submitted.on_cpu:  # else it is that of all programs of the host
        own = mine.metrics.device_memory_used_bytes
        checks.append(_lower("device-memory", used, own, setup or busy, lambda size: f"{size / GIB:.2f} GiB"))
    joules = there.metrics.joules_per_token
    if joules:
        drawn = mine.metrics.joules_per_token
        checks.append(_lower("energy", joules, drawn, setup or busy, lambda value: Text("{:.3g} J per token", value)))
    if (peak := _peak(there, mine, machine, busy)) is not None:
        checks.append(peak)
    return tuple(checks)


def claims_text(checks: tuple[ClaimCheck, ...], different: str) -> str:
    """All outcomes in one line, with what is `different` here if anything was compared."""
    compared = [check for check in checks if check.outcome != "not compared"]
    parts = []
    if compared:
        figures = ", ".join(f"{check.claim} {check.times_as_good:.2f}" for check in compared)
        parts.append(Text("claims, times as good as here: {}{}", figures, different))
    reasons: dict[str, list[str]] = {}
    for check in checks:
        if check.outcome == "not compared":
            reasons.setdefault(check.message, []).append(check.claim)
    for reason, (first, *others) in reasons.items():
        nor = Text(", nor {}", ", ".join(others)) if others else ""
        parts.append(Text("{} not compared{}: {}", first, nor, reason))
    return Text.joined("; ", parts)


def differences(there: Result, here: Result) -> str:
    """`; different here: torch 2.9.1 -> 2.15.0`: what can change the speed of one device model; empty if nothing."""
    notable = {*there.software.notable_packages, *here.software.notable_packages}
    theirs, ours = (
        {
            **{name: version for name, version in run.software.packages.items() if name in notable},
            **{f"kernels.{name}": kernel for name, kernel in run.kernels.items()},
            **run.software.environment,
            "driver": run.hardware.driver,
            "host": run.hardware.host_cpu,
        }
        for run in (there, here)
    )
    names = [name for name in {**theirs, **ours} if theirs.get(name) != ours.get(name)]
    texts = [f"{name} {theirs.get(name) or 'unknown'} -> {ours.get(name) or 'unknown'}" for name in names]
    more = Text(" and {} more", len(texts) - MOST_DIFFERENCES) if len(texts) > MOST_DIFFERENCES else ""
    return Text("; different here: {}{}", ", ".join(texts[:MOST_DIFFERENCES]), more) if texts else ""


def _busy(here: Result) -> str | None:
    """The reason why the times of a rerun cannot be compared; None if nothing else went on."""
    before = [node.before for node in here.conditions if node.before is not None]
    # uneven steps are held against the same steps of the submission: the first ones are slow in both
    here = replace(here, metrics=replace(here.metrics, step_seconds=None))
    reasons = [*disturbances(here), *(part for load in before for part in busy_parts(load))]
    if reasons:
        return Text("this machine was disturbed: {}", reasons[0])
    known = here.metrics.other_cpu_share is not None or any(load.other_cpu_share is not None for load in before)
    return None if known else Text("what else this machine did is unknown")


def _speed(submitted: Measured, here: Measured, reason: str | None, tolerance: Mapping[Claim, float]) -> ClaimCheck:
    steps = sorted(step for step in submitted.step_seconds.keys() & here.step_seconds.keys() if step > 1)
    theirs, ours = ([run.step_seconds[step] for step in steps] for run in (submitted, here))
    ratios = [mine / max(value, 1e-12) for mine, value in zip(ours, theirs, strict=True)]
    if reason is None and len(steps) < FEWEST_STEPS:
        reason = Text("expected --rerun {} or more: the first step is left out", FEWEST_STEPS + 1)
    elif reason is None:
        p5, *_, p95 = quantiles(ratios, n=20, method="inclusive")
        if p95 > UNEVEN_QUANTILES * p5:
            reason = Text("steps took {:.2g} to {:.2g} times as long as there: one of the runs was disturbed", p5, p95)
    if reason is not None:
        return ClaimCheck(claim="speed", outcome="not compared", message=reason)
    of_all = submitted.result.metrics.step_seconds
    claimed, fastest = median(theirs) if of_all is None else of_all.median, min(ours)
    good = fastest / max(claimed, 1e-12)
    if good > REACHED:  # no step here was clearly faster than its steps are said to be
        good = max(good, median(ratios))
    figures = Text(
        "steps 2 to {} took {:.3g} s, here {:.3g} s (medians); all measured steps {:.3g} s (median), the fastest here"
        " {:.3g} s",
        *(steps[-1], median(theirs), median(ours), claimed, fastest),
    )
    return _check("speed", good, claimed, median(ours), figures, tolerance)


def _peak(there: Result, here: Result, machine: str | None, busy: str | None) -> ClaimCheck | None:
    """The peak of a whole device, whatever the submission calls it; None if nobody measures that of such a device.

    What is measured on a busy machine is too low: it can show that a claim is too low, not that it is not.
    """
    claimed = next(_peaks(there, measured=True), None)
    measured = list(_peaks(here, measured=True))
    if here.peak_again is not None:
        measured.append((here.peak_again.dtype, here.peak_again.flops_per_second))
    if claimed is None and (not measured or (claimed := next(_peaks(there, measured=False), None)) is None):
        return None
    dtype, flops = claimed
    known = [value for name, value in measured if name == dtype]
    check = _lower("peak", flops, max(known, default=None), machine, lambda value: f"{value / 1e12:.3g} TFLOP/s")
    if check.outcome == "agrees" and busy is not None:
        return ClaimCheck(claim="peak", outcome="not compared", message=busy)
    return check


def _peaks(result: Result, measured: bool) -> Iterator[tuple[str, float]]:
    """Dtype and FLOP/s of a whole device, of each convention that has a peak; only those called `measured`, or all."""
    share = result.hardware.device_share
    for mfu in result.mfu:
        dtype, flops = mfu.peak_dtype, mfu.peak_flops_per_second
        if share and flops and dtype is not None and (mfu.peak_confidence == "measured" or not measured):
            yield dtype, flops / share


def _lower(
    claim: Claim,
    there: float,
    here: float | None,
    reason: str | None,
    text: Callable[[float], str],
    tolerance: Mapping[Claim, float] = TOLERANCE,
) -> ClaimCheck:
    """A figure that is the better the lower it is."""
    if reason is not None or here is None:
        why = reason or Text("the rerun shows none: this machine does not, or the rerun was too short")
        return ClaimCheck(claim=claim, outcome="not compared", message=why)
    return _check(claim, here / there, there, here, Text("{}, here {}", text(there), text(here)), tolerance)


def _check(
    claim: Claim, good: float, there: float, here: float, figures: str, tolerances: Mapping[Claim, float]
) -> ClaimCheck:
    tolerance = tolerances[claim]
    return ClaimCheck(
        claim=claim,
        outcome="better" if good > tolerance else "agrees",
        message=Text("{}: {}: {:.2f} times as good as here, expected at most {:g}", claim, figures, good, tolerance),
        submitted=there,
        here=here,
        times_as_good=good,
        tolerance=tolerance,
    )
