"""The estimate of a planned case: the traces of its stages, the rates of its device, and a setting that fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

from llmperf import decode, read_bytes
from llmperf.accounting import utilisation, weighted_peaks
from llmperf.errors import UserError
from llmperf.types import PlannedCase
from llmperf.types.plan import Plan
from llmperf.types.rates import DeviceRates, wrong_rate
from llmperf.types.tracing import StepTrace, TracedMemory

from llmperf_estimate.calibration import calibration, expected_error
from llmperf_estimate.rank_sizes import load_notes
from llmperf_estimate.seconds import with_network
from llmperf_estimate.step_time import communications, operation_times, savings, stage_times, step_time
from llmperf_estimate.traces import TRACE_SECONDS, analytic_traces, step_traces
from llmperf_estimate.types import Estimate, FittingSetting, StageMemory, TracerUse

MEMORY_PROBLEMS = ("memory_too_small", "memory_estimate_too_large")
"""Problems of a plan that an estimate shows itself."""
ABOVE_PEAK = 1.5
"""Measured rates may exceed a peak that is measured too, or is that of a base clock, but not by more than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateOptions:
    """How an estimate is made."""

    analytic: bool = False
    """By formulas alone."""
    rates_file: Path | None = None
    """Rates that `llmperf peak --out FILE` measured."""
    network_bytes_per_second: float | None = None
    """Bandwidth of one node, all adapters together, in one direction."""
    trace_seconds: float = TRACE_SECONDS
    """Time limit of the trace of one stage."""


def estimate(case: PlannedCase, options: EstimateOptions, progress: Callable[[str], None]) -> Estimate | None:
    """The estimate of a planned case; None if it has problems other than too little memory."""
    plan = case.plan
    if plan is None or any(problem.code not in MEMORY_PROBLEMS for problem in case.problems):
        return None
    traces = analytic_traces(plan) if options.analytic else step_traces(plan, progress, options.trace_seconds)
    made = estimate_of(plan, traces.stages, *known_rates(plan, case, options), traces.use, traces.notes)
    made = replace(made, tuned_elsewhere=case.tuned_elsewhere)
    return made if made.fits is not False else replace(made, nearest=_nearest(case, plan, made))


def _nearest(case: PlannedCase, plan: Plan, estimate: Estimate) -> FittingSetting | None:
    """The first change that fits, by formulas scaled to the trace of the case, smallest changes first, if any."""

    def peak(of: Plan) -> int:
        return max(trace.memory.peak_bytes for trace in analytic_traces(of).stages.values())

    capacity = estimate.memory[0].capacity_bytes
    if capacity is None or plan.spec.model.counted is not None:
        return None
    scale = max(stage.peak_bytes for stage in estimate.memory) / peak(plan)
    for settings, smaller in case.smaller():
        needed = round(peak(smaller) * scale)
        total = needed + (overhead_bytes(needed, estimate.rates) or 0)
        if total <= capacity:
            return FittingSetting(settings=settings, total_bytes=total)
    return None


def known_rates(plan: Plan, case: PlannedCase, options: EstimateOptions) -> tuple[DeviceRates | None, str | None]:
    """The rates of the device (of a file, as measured here, or assumed by the vendor), or why there are none."""
    model, assumed = plan.probe.devices[0].model, case.assumed_rates
    rates = plan.rates or assumed
    if (path := options.rates_file) is not None:
        rates, peak = decode(read_bytes(path), DeviceRates, str(path)), plan.peak
        if (wrong := wrong_rate(rates)) is not None:
            raise UserError(f"--rates {path}: {wrong}")
        if rates.device_model != model:
            raise UserError(f"--rates {path}: expected rates of {model!r}, found those of {rates.device_model!r}")
        reached = 0.0 if peak is None else rates.matmul_flops_per_second.get(peak.dtype, 0.0)
        if peak is not None and reached > ABOVE_PEAK * peak.flops_per_second:
            limit = f"at most the peak of {peak.flops_per_second:g} FLOP/s"
            where = f"matmul_flops_per_second.{peak.dtype}"
            raise UserError(f"--rates {path}: {where}: expected {limit}, found {reached:g}")
        if rates.overhead_bytes is None and assumed is not None:
            rates = replace(rates, overhead_bytes=assumed.overhead_bytes)
    if rates is None:
        reason = f"{plan.vendor} gives no rates of {model!r}; measure them there: llmperf peak --out FILE"
        return None, f"{reason}, and use --rates FILE"
    if options.network_bytes_per_second is not None:
        rates = with_network(rates, options.network_bytes_per_second, plan.layout.devices_per_node)
    return rates, None


def estimate_of(
    plan: Plan,
    traces: Mapping[int, StepTrace],
    known: DeviceRates | None,
    problem: str | None = None,
    tracing: tuple[TracerUse, ...] = (),
    notes: tuple[str, ...] = (),
) -> Estimate:
    """The estimate of a plan. `traces` has the traced stages by their index."""
    from llmperf_schemas import ESTIMATE_SCHEMA

    rounds = plan.batch.gradient_accumulation
    memory = stage_memory(plan, traces, known)
    rates = known
    if fits(memory) is False:
        rates, problem = None, "the memory does not suffice"
    elif plan.worker.offloaded and rates is not None:
        rates, problem = None, f"the host keeps {', '.join(plan.worker.offloaded)}, at rates that are not known"
    time, slowest = None, max(traces)
    try:
        if rates is not None:
            rates = for_rank(rates, plan)
            time, slowest = step_time(plan, traces, rates)
    except ValueError as error:
        rates, problem = None, str(error)
    trace, counted_by, by_formulas = traces[slowest], plan.flops.counted_by, list[str]()
    if counted_by != "core" and any(trace.method == "analytic" for trace in traces.values()):
        formulas = "memory and time: by the core's formulas, as of a transformer with the model's facts"
        by_formulas.append(f"{formulas}; its FLOPs for MFU are counted by extension {counted_by}")
    known_notes = (
        *notes,
        *plan.worker.notes,
        *by_formulas,
        *load_notes(plan),
        *(line for trace in traces.values() for line in trace.notes),
    )
    throughput = None if time is None else plan.batch.tokens_per_step / time.seconds / plan.layout.world_size
    return Estimate(
        schema=ESTIMATE_SCHEMA,
        created=plan.created,
        llmperf_version=plan.llmperf_version,
        spec=plan.spec,
        vendor=plan.vendor,
        device_model=plan.probe.devices[0].model,
        layout=plan.layout,
        batch=plan.batch,
        memory=memory,
        fits=fits(memory),
        nearest=None,
        time=time,
        time_problem=problem,
        stages=() if rates is None else stage_times(traces, rates, plan.layout),
        tokens_per_second_per_device=throughput,
        mfu=utilisation(plan.flops, throughput, plan.peak, plan.device_share, weighted=weighted_peaks(plan)),
        operations=operation_times(trace, rates, rounds),
        communication=communications(trace, rates, plan.layout, rounds),
        savings=() if rates is None or time is None else savings(plan, traces, rates, time, slowest),
        host_waits=trace.host_waits,
        kernels=sum((each.per_micro_batch * rounds + each.per_step) * each.kernels for each in trace.operations),
        rates=known,
        expected_error=expected_error(plan, trace.method),
        tracing=tracing,
        stand_ins=tuple(dict.fromkeys(line for trace in traces.values() for line in trace.stand_ins)),
        notes=tuple(dict.fromkeys(known_notes)),
    )


def fits(memory: tuple[StageMemory, ...]) -> bool | None:
    """Check whether every stage fits; None if that is not known."""
    verdicts = [stage.fits for stage in memory]
    return None if None in verdicts else all(verdicts)


def for_rank(rates: DeviceRates, plan: Plan) -> DeviceRates:
    """The rates of the part of a device that one rank has."""
    share = plan.device_share
    if share == 1:
        return rates
    return replace(
        rates,
        matmul_flops_per_second={name: rate * share for name, rate in rates.matmul_flops_per_second.items()},
        attention_flops_per_second={name: rate * share for name, rate in rates.attention_flops_per_second.items()},
        memory_bytes_per_second=rates.memory_bytes_per_second * share,
        matmuls=tuple(replace(product, flops_per_second=product.flops_per_second * share) for product in rates.matmuls),
    )


def stage_memory(plan: Plan, traces: Mapping[int, StepTrace], rates: DeviceRates | None) -> tuple[StageMemory, ...]:
    """The memory of each traced stage."""
    capacity = device_bytes(plan)
    stages = []
    for stage, trace in sorted(traces.items()):
        overhead = overhead_bytes(trace.memory.peak_bytes, rates)
        total = trace.memory.peak_bytes + (overhead or 0)
        stages.append(
            StageMemory(
                stage=stage,
                rank=trace.rank,
                method=trace.method,
                **{field.name: getattr(trace.memory, field.name) for field in fields(TracedMemory)},
                overhead_bytes=overhead,
                total_bytes=total,
                capacity_bytes=capacity,
                fits=None if capacity is None else total <= capacity,
            )
        )
    return tuple(stages)


def overhead_bytes(peak_bytes: int, rates: DeviceRates | None) -> int | None:
    """Memory of a process beside its tensors; None if the device's part of it is not known."""
    if rates is None or rates.overhead_bytes is None:
        return None
    return rates.overhead_bytes + round(calibration().fragmentation * peak_bytes)


def device_bytes(plan: Plan) -> int | None:
    """Memory of the part of a device that one rank has; None if it is not known."""
    memory = plan.probe.devices[0].memory_bytes
    return None if memory is None else int(memory * plan.device_share)
