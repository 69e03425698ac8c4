"""The estimate of a request: its plan, the traces of its stages, the rates of its device, and a setting that fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from llmperf.cases.library import whole_library
from llmperf.cases.overlays import Facts, on_other_devices
from llmperf.cases.settings import from_command_line
from llmperf.errors import UserError
from llmperf.estimating.estimate import KnownRates, estimate_of
from llmperf.estimating.seconds import with_network
from llmperf.files import json_files
from llmperf.planning.build import plan_only
from llmperf.planning.ready import ready
from llmperf.planning.states import Outcome, Refused, Request
from llmperf.running.step_traces import TRACE_SECONDS, analytic_traces, step_traces
from llmperf.running.suggestions import MEMORY_PROBLEMS, nearest_setting, with_suggestions
from llmperf.types.estimate import Estimate
from llmperf.types.plan import Plan
from llmperf.types.rates import DeviceRates, wrong_rate


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
    outcome = ready(plan_only(*request))
    plan = outcome.plan
    others = [problem for problem in outcome.problems if problem.code not in MEMORY_PROBLEMS]
    if plan is None or (isinstance(outcome, Refused) and others):
        return with_suggestions(outcome, request), None
    traces = analytic_traces(plan) if options.analytic else step_traces(plan, progress, options.trace_seconds)
    made = estimate_of(plan, traces.stages, known_rates(plan, outcome, options), traces.use, traces.notes)
    made = replace(made, tuned_elsewhere=tuned_elsewhere(request, plan))
    return outcome, made if made.fits is not False else replace(made, nearest=nearest_setting(outcome, request, made))


NAMED_DEVICES = 2
"""Other devices that `tuned_elsewhere` names."""


def tuned_elsewhere(request: Request, plan: Plan) -> tuple[str, ...]:
    """Settings that overlays change in the same run on other devices, unless the user sets them.

    Such as `micro_batch on DEVICE, OTHER DEVICE and 3 more`.
    """
    device, spec = plan.probe.devices[0], plan.spec
    actual = Facts(
        case=spec.case,
        device=device.model,
        framework=spec.tuning.framework,
        model=spec.contract.model,
        kind=device.kind,
        ranks=plan.layout.world_size,
    )
    lines, asked = [], {setting.path for setting in from_command_line(request.selection.settings)}
    for devices, settings in on_other_devices(whole_library(), actual, request.selection.read_case().contract.model):
        named, more = ", ".join(devices[:NAMED_DEVICES]), len(devices) - NAMED_DEVICES
        paths = [setting.path for setting in settings if setting.path not in asked]
        changed = ", ".join(path.removeprefix("tuning.") for path in paths)
        lines += [] if not paths else [f"{changed} on {named}{f' and {more} more' if more > 0 else ''}"]
    return tuple(lines)


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
