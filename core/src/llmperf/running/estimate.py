"""The estimate of a request: its plan, the traces of its stages, the rates of its device, and a setting that fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from llmperf.errors import UserError
from llmperf.estimating.communication import with_network
from llmperf.estimating.estimate import KnownRates, estimate_of
from llmperf.files import json_files
from llmperf.planning.build import plan_only
from llmperf.planning.states import Outcome, Refused, Request
from llmperf.running.fitting import nearest_setting
from llmperf.running.step_traces import TRACE_SECONDS, Traces, analytic_traces, step_traces
from llmperf.types.estimate import Estimate
from llmperf.types.plan import Plan
from llmperf.types.rates import DeviceRates, wrong_rate

MEMORY_PROBLEMS = ("memory_too_small", "memory_estimate_too_large")
"""Problems of a plan that an estimate shows itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateOptions:
    """How an estimate is made."""

    analytic: bool = False
    """By formulas alone."""
    rates_file: Path | None = None
    """Rates that `llmperf peak --output FILE` measured."""
    network_bytes_per_second: float | None = None
    """Of one node, all adapters together, in one direction."""
    trace_seconds: float = TRACE_SECONDS
    """Time limit of the trace of one stage."""


def estimate(
    request: Request, options: EstimateOptions, progress: Callable[[str], None]
) -> tuple[Outcome, Estimate | None]:
    """The plan of a request and its estimate; no estimate if the plan has problems other than too little memory."""
    outcome = plan_only(request)
    plan = outcome.plan
    others = [problem for problem in outcome.problems if problem.code not in MEMORY_PROBLEMS]
    if plan is None or (isinstance(outcome, Refused) and others):
        return outcome, None
    traces = analytic_traces(plan) if options.analytic else step_traces(plan, progress, options.trace_seconds)
    made = estimated(plan, traces, outcome, options)
    return outcome, made if made.fits is not False else replace(made, nearest=nearest_setting(request, plan, made))


def estimated(plan: Plan, traces: Traces, outcome: Outcome, options: EstimateOptions) -> Estimate:
    """The estimate of traces that were made."""
    return estimate_of(plan, traces.stages, known_rates(plan, outcome, options), traces.use, traces.notes)


ABOVE_PEAK = 1.5
"""Measured rates may exceed a peak that is measured too, or is that of a base clock, but not by more than this."""


def _from_file(path: Path, plan: Plan, assumed: DeviceRates | None) -> DeviceRates:
    """Measured rates; what a process takes beside its tensors as the vendor assumes it, unless the file says.

    UserError for a file of another device, or with rates that the device cannot reach.
    """
    model, peak = plan.probe.devices[0].model, plan.peak
    rates = json_files.load(path, DeviceRates)
    if (wrong := wrong_rate(rates)) is not None:
        raise UserError(f"--rates {path}: {wrong}")
    if rates.device_model != model:
        raise UserError(f"--rates {path}: expected rates of {model!r}, found those of {rates.device_model!r}")
    if peak is not None and rates.matmul_flops_per_second.get(peak.dtype, 0.0) > ABOVE_PEAK * peak.flops_per_second:
        where, reached = f"matmul_flops_per_second.{peak.dtype}", rates.matmul_flops_per_second[peak.dtype]
        limit = f"at most the peak of {peak.flops_per_second:g} FLOP/s"
        raise UserError(f"--rates {path}: {where}: expected {limit}, found {reached:g}")
    if rates.overhead_bytes is None and assumed is not None:
        return replace(rates, overhead_bytes=assumed.overhead_bytes)
    return rates


def known_rates(plan: Plan, outcome: Outcome, options: EstimateOptions) -> KnownRates:
    """The rates of the planned device: from a file, as measured on this machine, or as the vendor assumes."""
    model = plan.probe.devices[0].model
    rates = plan.rates or outcome.plugins.rates(model)
    if options.rates_file is not None:
        rates = _from_file(options.rates_file, plan, outcome.plugins.rates(model))
    if rates is None:
        reason = f"{plan.vendor} gives no rates of {model!r}; measure them there: llmperf peak --output FILE"
        return KnownRates(rates=None, problem=f"{reason}, and use --rates FILE")
    if options.network_bytes_per_second is not None:
        rates = with_network(rates, options.network_bytes_per_second, plan.layout.devices_per_node)
    return KnownRates(rates=rates)
