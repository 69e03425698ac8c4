"""The peak of a machine's devices, as their vendor gives it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from llmperf.accounting.precisions import precision_recipe
from llmperf.errors import PluginError
from llmperf.planning.states import Planned
from llmperf.planning.vendors import Machine
from llmperf.plugins.discovery import Found
from llmperf.plugins.facts import catalogue_problems
from llmperf.plugins.faults import who
from llmperf.plugins.loading import Plugins
from llmperf.types.devices import Dtype, PeakFlops
from llmperf.types.plan import Plan
from llmperf.types.spec import RunSpec


def peak_key(planned: Planned) -> tuple[str, Dtype]:
    """Vendor and dtype of the peak that a run's MFU needs: runs with the same key share it."""
    return planned.machine.vendor, precision_recipe(planned.spec.contract.precision).products


def with_peak(planned: Planned) -> Planned:
    """The same run; if its plan has no peak, its vendor is asked again, such as after a host was too busy to time one.

    The plan stays as it is if the vendor's plugin fails this time.
    """
    if planned.plan.peak is not None or planned.resolved.request.skip_peak_and_env:
        return planned
    try:
        peaks = peaks_of(planned.spec, planned.machine, planned.plugins)
    except PluginError:
        return planned
    plan = replace(planned.plan, peak=peaks.products, rest_peak=peaks.rest, peak_problem=peaks.problem)
    return replace(planned, plan=plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """The peaks of one whole device for a run."""

    products: PeakFlops | None
    """For the products that the precision recipe covers."""
    rest: PeakFlops | None = None
    """For the others, if they have another dtype."""
    problem: str | None = None
    """Why `products` is not known."""


NOT_ASKED = Peaks(products=None, problem="not asked for")


def peaks_of(
    spec: RunSpec, machine: Machine, plugins: Plugins, refused: Iterable[tuple[str, Dtype, str]] = ()
) -> Peaks:
    """The peaks for a spec's precision recipe; without one, why it is not known.

    The vendor is not asked for those `refused` before (vendor, dtype, reason).
    """
    recipe = precision_recipe(spec.contract.precision)
    if spec.tuning.emulate_precision:
        device = machine.probe.devices[0].model
        return Peaks(products=None, problem=f"{recipe.products} is emulated: {device!r} does not compute in it")
    for vendor, dtype, reason in refused:
        if (vendor, dtype) == (machine.vendor, recipe.products):
            return Peaks(products=None, problem=reason)
    products, problem = _peak_of(recipe.products, machine, plugins)
    rest = _peak_of(recipe.rest, machine, plugins)[0] if recipe.mixed and products is not None else None
    return Peaks(products=products, rest=rest, problem=problem)


def _peak_of(dtype: Dtype, machine: Machine, plugins: Plugins) -> tuple[PeakFlops | None, str | None]:
    model, peak = machine.probe.devices[0].model, None
    if plugins.answers("llmperf_peak_flops"):
        answer = plugins.peak(model, dtype)
        if isinstance(answer, str):
            return None, answer
        peak = answer
        _check_peak(peak, plugins.owner("llmperf_peak_flops"))
    if peak is not None:
        return peak, None
    problem = f"{machine.vendor} gives no {dtype} peak for {model!r}: its plugin lacks one with a source"
    skipped = catalogue_problems(plugins.found(f"vendor:{machine.vendor}"), plugins)
    return None, "; ".join([problem, *(line for line in skipped if f"({model})" in line or dtype in line)])


def peak_again(plan: Plan, plugins: Plugins) -> PeakFlops | None:
    """The peak of a plan measured anew by its vendor; None for a peak that was not measured, or if that fails."""
    peak = plan.peak
    if peak is None or peak.confidence != "measured":
        return None
    try:
        again = plugins.timed_peak(peak.device_model, precision_recipe(plan.spec.contract.precision).products)
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
