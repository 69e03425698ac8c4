"""The last step before a run: what takes time or only the ranks need, such as peak, rates and variables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar

from llmperf.accounting.precisions import precision_recipe
from llmperf.errors import DataError, PluginError
from llmperf.planning.checks import checked
from llmperf.planning.host_facts import injecting, package_versions
from llmperf.planning.states import LOCAL, Planned, Refused
from llmperf.planning.vendors import Machine
from llmperf.plugins.discovery import Found
from llmperf.plugins.facts import catalogue_problems, joined_facts
from llmperf.plugins.faults import of_kind, who
from llmperf.plugins.loading import Plugins
from llmperf.types.devices import Dtype, PeakFlops
from llmperf.types.plan import Plan
from llmperf.types.rates import DeviceRates, wrong_rate
from llmperf.types.spec import RunSpec

AnyOutcome = TypeVar("AnyOutcome", bound=Planned | Refused)
NONE_REFUSED: Mapping[tuple[str, Dtype], str] = MappingProxyType({})
NOT_ASKED = "not asked for"
"""`Plan.peak_problem` of a draft."""


def ready(outcome: AnyOutcome, refused: Mapping[tuple[str, Dtype], str] = NONE_REFUSED) -> AnyOutcome:
    """The outcome with a whole plan; the vendor is not asked again for the peaks `refused`, with the reasons."""
    plan, machine, plugins = outcome.plan, outcome.machine, outcome.plugins
    if plan is None:
        return outcome
    rates, notes = rates_of(plan, machine, plugins)
    fingerprint = None
    if machine.here:
        from llmperf.tokens.sources import open_samples  # imports numpy

        with suppress(DataError):
            fingerprint = open_samples(plan.spec, plan.batch).fingerprint
    plan = replace(
        plan,
        **peaks_of(plan.spec, machine, plugins, refused),
        rates=rates,
        data_fingerprint=fingerprint,
        notes=(*plan.notes, *notes),
    )
    plan = replace(plan, env=worker_env(plan, plugins))
    if all(problem.code != "framework_fault" for problem in plan.problems):
        plan, _, _ = checked(plan, plugins)
    return replace(outcome, plan=plan)


def rates_of(plan: Plan, machine: Machine, plugins: Plugins) -> tuple[DeviceRates | None, tuple[str, ...]]:
    """What the devices achieve, measured here or else assumed; and a note for each measurement not used."""
    hook, notes = "llmperf_measured_rates", list[str]()
    if machine.here and plan.launcher == LOCAL and machine.interpreter is None:
        packages = package_versions(joined_facts(plugins).packages)
        for key, answer in plugins.collect_sound(hook, notes, plan=plan, packages=packages):
            if isinstance(answer, str):
                notes.append(answer)
                continue
            rates = of_kind(plugins.found(key), hook, answer, DeviceRates)
            if (wrong := wrong_rate(rates)) is None:
                return rates, tuple(notes)
            notes.append(f"{plugins.who(key)}: {hook}: {wrong}")
    return plugins.rates(machine.probe.devices[0].model), tuple(notes)


def with_peak(planned: Planned) -> Planned:
    """The same run; if its plan has no peak, its vendor is asked again, such as after a host was too busy."""
    if planned.plan.peak is not None:
        return planned
    try:
        peaks = peaks_of(planned.spec, planned.machine, planned.plugins)
    except PluginError:
        return planned
    return replace(planned, plan=replace(planned.plan, **peaks))


def peaks_of(
    spec: RunSpec, machine: Machine, plugins: Plugins, refused: Mapping[tuple[str, Dtype], str] = NONE_REFUSED
) -> dict[str, Any]:
    """The fields of a plan with the peaks of a whole device, or why they are not known; `refused` are not asked for.

    `rest_peak` is that of the products that the precision recipe does not cover, if they have another dtype.
    """
    recipe, model = precision_recipe(spec.contract.precision), machine.probe.devices[0].model
    problem = refused.get((machine.vendor, recipe.products))
    if spec.tuning.emulate_precision:
        problem = f"{recipe.products} is emulated: {model!r} does not compute in it"
    if problem is not None:
        return {"peak": None, "rest_peak": None, "peak_problem": problem}
    hook = "llmperf_peak_flops"
    known: dict[Dtype, PeakFlops | str | None] = {}
    for dtype in dict.fromkeys((recipe.products, recipe.rest)) if plugins.answers(hook) else ():
        known[dtype] = plugins.peak(model, dtype)
        if isinstance(peak := known[dtype], PeakFlops):
            _check_peak(peak, plugins.owner(hook))
        if not isinstance(known[recipe.products], PeakFlops):
            break
    products, rest = known.get(recipe.products), known.get(recipe.rest) if recipe.mixed else None
    problem = products if isinstance(products, str) else None
    if products is None:
        dtype = recipe.products
        lacks = f"{machine.vendor} gives no {dtype} peak for {model!r}: its plugin lacks one with a source"
        skipped = catalogue_problems(plugins.found(f"vendor:{machine.vendor}"), plugins)
        problem = "; ".join([lacks, *(line for line in skipped if f"({model})" in line or dtype in line)])
    return {
        "peak": products if isinstance(products, PeakFlops) else None,
        "rest_peak": rest if isinstance(rest, PeakFlops) else None,
        "peak_problem": problem,
    }


def peak_again(plan: Plan, plugins: Plugins) -> PeakFlops | None:
    """The peak of a plan measured anew by its vendor; None for a peak that was not measured, or if that fails."""
    peak = plan.peak
    if peak is None or peak.confidence != "measured":
        return None
    try:
        dtype = precision_recipe(plan.spec.contract.precision).products
        again = plugins.optional("llmperf_time_peak", PeakFlops, device_model=peak.device_model, dtype=dtype)
        if again is not None:
            _check_peak(again, plugins.owner("llmperf_time_peak"), "llmperf_time_peak")
    except PluginError:
        return None
    return again


def _check_peak(peak: PeakFlops | None, owner: Found, hook: str = "llmperf_peak_flops") -> None:
    """PluginError for a peak that is not a finite number above 0."""
    if peak is not None and not (math.isfinite(peak.flops_per_second) and peak.flops_per_second > 0):
        found = f"expected a finite number of FLOP/s above 0, found {peak.flops_per_second!r}"
        raise PluginError(f"{who(owner)}: {hook}: {found}")


def worker_env(plan: Plan, plugins: Plugins) -> dict[str, str]:
    """The variables that all plugins set for the ranks; PluginError for a conflict or a forbidden name."""
    joined: dict[str, str] = {}
    owners: dict[str, str] = {}
    for owner, answer in plugins.collect("llmperf_worker_env", plan=plan):
        if not isinstance(answer, Mapping):
            kind = type(answer).__name__
            raise PluginError(f"{plugins.who(owner)}: expected names and values of llmperf_worker_env, found {kind}")
        if problem := injecting(name for name in answer if isinstance(name, str)):
            raise PluginError(f"{plugins.who(owner)}: llmperf_worker_env: {problem}")
        for name, value in answer.items():
            if not isinstance(value, str):
                raise PluginError(f"{owner} sets {name} to {value!r}; expected text")
            if joined.get(name, value) != value:
                raise PluginError(f"{owners[name]} and {owner} disagree on {name}: {joined[name]!r} against {value!r}")
            joined[name] = value
            owners[name] = owner
    return dict(sorted(joined.items()))
