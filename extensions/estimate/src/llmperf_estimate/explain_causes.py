"""Causes of the gap between two figures: recorded differences, and their effect by traces, formulas and readings."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import exp, log

from llmperf.types.result import OTHER_CPU_SHARE
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


def recorded(run: Side, against: Side) -> Recorded:
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


def steps_by_formulas(run: Side, against: Side, differing: Recorded) -> list[tuple[float, float]]:
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


def modelled(run: Side, against: Side, differing: Recorded, steps: Sequence[tuple[float, float]]) -> dict[str, Factor]:
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


def traced_causes(run: Side, against: Side, differing: Recorded) -> dict[str, Factor]:
    """From the traced steps of both, or of the run and of its estimate: more calls, slower calls, gaps."""
    from llmperf_trace.step_parts import COMMUNICATION, IDLE, REMAINDER

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
    from llmperf_trace.step_parts import COMMUNICATION, REMAINDER, parts_of_step, seconds_by_kind

    found: dict[str, tuple[float, float]] = {}
    if side.profile is not None:
        calls = {operation.name: operation.calls for operation in side.profile.operations}
        parts = {name: seconds for (name, _), seconds in parts_of_step(side.profile).items()}
        if by_kind:
            parts = {name: seconds for name, seconds in parts.items() if name not in calls}
            parts |= {str(kind): seconds for kind, seconds in seconds_by_kind(side.profile).items()}
        found = {name: (seconds, calls.get(name, 0.0)) for name, seconds in parts.items()}
    elif side.estimate is not None and (time := side.estimate.time) is not None:
        for operation in side.estimate.operations:
            found[operation.kind] = (found.get(operation.kind, (0.0, 0.0))[0] + (operation.seconds or 0.0), 0.0)
        found[COMMUNICATION] = (time.communication_seconds + time.bubble_seconds, 0.0)
        found[REMAINDER] = (time.loss_seconds, 0.0)
    whole = sum(seconds for seconds, _ in found.values()) * (side.tokens or 1.0)
    step = side.number("tokens_per_step") or 1.0
    return {name: (seconds / whole, calls / step) for name, (seconds, calls) in found.items()} if whole else {}
