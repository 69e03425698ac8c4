"""Puts an estimate together from a plan, the traces of its stages and the rates of its device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from llmperf.accounting.flops import utilisation
from llmperf.accounting.weighted_peak import weighted_peaks
from llmperf.estimating.analytic import analytic_trace
from llmperf.estimating.calibration import calibration, expected_error
from llmperf.estimating.rank_sizes import load_notes
from llmperf.estimating.savings import savings
from llmperf.estimating.step_time import communications, operation_times, stage_times, step_time
from llmperf.types.estimate import Estimate, StageMemory, TracerUse
from llmperf.types.plan import Plan
from llmperf.types.rates import DeviceRates
from llmperf.types.tracing import OperationKind, StepTrace


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRates:
    """The rates of a device, or why there are none."""

    rates: DeviceRates | None
    problem: str | None = None


def estimate_of(
    plan: Plan,
    traces: Mapping[int, StepTrace],
    known: KnownRates,
    tracing: tuple[TracerUse, ...] = (),
    notes: tuple[str, ...] = (),
) -> Estimate:
    """The estimate of a plan. `traces` has the traced stages by their index."""
    from llmperf_schemas import ESTIMATE_SCHEMA

    rounds = plan.batch.gradient_accumulation
    memory = stage_memory(plan, traces, known.rates)
    rates, problem = known.rates, known.problem
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
    trace = traces[slowest]
    known_notes = (
        *notes,
        *plan.worker.notes,
        *_formula_notes(plan, traces),
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
        rates=known.rates,
        expected_error=expected_error(plan, trace.method),
        tracing=tracing,
        stand_ins=tuple(dict.fromkeys(line for trace in traces.values() for line in trace.stand_ins)),
        notes=tuple(dict.fromkeys(known_notes)),
    )


def _formula_notes(plan: Plan, traces: Mapping[int, StepTrace]) -> Iterator[str]:
    """That formulas of the core stand for a model whose FLOPs an extension counts."""
    counted_by = plan.flops.counted_by
    if counted_by != "core" and any(trace.method == "analytic" for trace in traces.values()):
        formulas = "memory and time: by the core's formulas, as of a transformer with the model's facts"
        yield f"{formulas}; its FLOPs for MFU are counted by extension {counted_by}"


def fits(memory: tuple[StageMemory, ...]) -> bool | None:
    """Whether every stage fits; None if that is not known."""
    verdicts = [stage.fits for stage in memory]
    return None if None in verdicts else all(verdicts)


def estimated_kinds(plan: Plan, rank: int) -> dict[OperationKind, float] | None:
    """Seconds of a step of a rank by kind of operation, by formulas and the rates of the device; None without rates."""
    if plan.rates is None:
        return None
    seconds: dict[OperationKind, float] = {}
    rates = for_rank(plan.rates, plan)
    for time in operation_times(analytic_trace(plan, rank), rates, plan.batch.gradient_accumulation):
        seconds[time.kind] = seconds.get(time.kind, 0.0) + (time.seconds or 0.0)
    return seconds


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
                peak_bytes=trace.memory.peak_bytes,
                at_peak=trace.memory.at_peak,
                phase=trace.memory.phase,
                operation=trace.memory.operation,
                between_steps=trace.memory.between_steps,
                overhead_bytes=overhead,
                total_bytes=total,
                capacity_bytes=capacity,
                fits=None if capacity is None else total <= capacity,
            )
        )
    return tuple(stages)


def overhead_bytes(peak_bytes: int, rates: DeviceRates | None) -> int | None:
    """What a process takes beside its tensors; None if the device's part of it is not known."""
    if rates is None or rates.overhead_bytes is None:
        return None
    return rates.overhead_bytes + round(calibration().fragmentation * peak_bytes)


def device_bytes(plan: Plan) -> int | None:
    """Memory of the part of a device that one rank has; None if it is not known."""
    memory = plan.probe.devices[0].memory_bytes
    return None if memory is None else int(memory * plan.device_share)
