"""Memory with activations and step time of a plan, by the analytic form, before anything starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from llmperf.types.plan import Plan
from llmperf.types.plan_checks import ExpectedWork, PlanCheck, Problem
from llmperf.types.tracing import OperationKind, StepTrace, TracedMemory

from llmperf_estimate.estimate import device_bytes, for_rank, overhead_bytes
from llmperf_estimate.step_time import operation_times, step_time
from llmperf_estimate.traces import UNKNOWN, analytic_trace, first_rank_of

TOLERANCE = 0.15
"""How far above the memory of a device the estimate must be to refuse a run: the analytic form is within this of traced
programs on the published cases."""
USUAL_OVERHEAD = 0.1
"""Share of a device's memory that a process is assumed to take beside its tensors (context, communication library,
fragmentation), where the device's rates do not say."""
USUAL_UTILISATION = 0.3
"""Share of the peak that the expected step time assumes, where the device's rates are not known."""
GIB = 2**30


def plan_checks(plan: Plan) -> Iterator[PlanCheck]:
    """Estimated memory and step time; a problem for a run far beyond its devices, a note if they may not suffice."""
    if plan.spec.model.counted is not None:
        yield PlanCheck(notes=(f"{UNKNOWN}; llmperf estimate traces the trainer",), step_basis=UNKNOWN)
        return
    stages = range(plan.layout.pipeline_parallel)
    traces = {stage: analytic_trace(plan, first_rank_of(plan, stage)) for stage in stages}
    memory = tuple(_resident(trace.memory, plan) for trace in traces.values())
    most, available = max(memory, key=lambda each: each.peak_bytes), device_bytes(plan)
    problems, notes = list[Problem](), list[str]()
    if available is not None:
        needed = f"about {most.peak_bytes / GIB:.1f} GiB a rank are estimated"
        beside = overhead_bytes(most.peak_bytes, plan.rates)
        if most.peak_bytes + (USUAL_OVERHEAD * available if beside is None else beside) > available:
            there = f"{available / GIB:.1f} GiB are there, and a process takes some beside its tensors"
            notes.append(f"memory may not suffice: {needed}, {there}")
        # an external script may hold something else
        if plan.worker.script is None and most.peak_bytes > (1 + TOLERANCE) * available:
            parts = f"({most.largest_parts()}; highest at: {most.operation})"
            message = f"{needed} {parts}, {available / GIB:.1f} GiB are there (--no-preflight starts it anyway)"
            problems.append(Problem(code="memory_estimate_too_large", where="tuning.micro_batch", message=message))
    seconds, basis = _step(plan, traces)
    yield PlanCheck(
        problems=tuple(problems),
        notes=tuple(notes),
        memory=memory,
        work=tuple(_work(plan, trace) for trace in traces.values()),
        step_seconds=seconds,
        step_basis=basis,
        fits=not notes,
    )


def _work(plan: Plan, trace: StepTrace) -> ExpectedWork:
    """FLOPs and bytes of a step of a rank, and its seconds by kind if the rates of the device are known."""
    rounds, seconds = plan.batch.gradient_accumulation, dict[OperationKind, float]()
    try:
        times = operation_times(trace, None if plan.rates is None else for_rank(plan.rates, plan), rounds)
    except ValueError:  # no rate for the dtype
        times = operation_times(trace, None, rounds)
    for time in times:
        if time.seconds is not None:
            seconds[time.kind] = seconds.get(time.kind, 0.0) + time.seconds
    counted = [(item, item.per_micro_batch * rounds + item.per_step) for item in trace.operations]
    return ExpectedWork(
        rank=trace.rank,
        method=trace.method,
        flops=float(sum(item.flops * times for item, times in counted)),
        bytes=float(sum(item.bytes * times for item, times in counted)),
        seconds=seconds,
    )


def _resident(memory: TracedMemory, plan: Plan) -> TracedMemory:
    """On a host, memory that is reserved and not yet written takes no space: buffers of communication are left out."""
    buffers = memory.at_peak.get("communication", 0)
    if not plan.probe.on_cpu or not buffers:
        return memory
    return replace(
        memory,
        peak_bytes=memory.peak_bytes - buffers,
        at_peak={kind: size for kind, size in memory.at_peak.items() if kind != "communication"},
        between_steps={kind: size for kind, size in memory.between_steps.items() if kind != "communication"},
    )


def _step(plan: Plan, traces: Mapping[int, StepTrace]) -> tuple[float | None, str]:
    """Seconds of a step and what they assume: the device's rates, or else a share of its peak."""
    if (rates := plan.rates) is not None:
        try:
            return step_time(plan, traces, rates)[0].seconds, f"{rates.basis} rates of the device"
        except ValueError:  # no rate for the dtype or the links
            pass
    peak = plan.rank_peak_flops
    if not peak:
        return None, "neither rates nor peak of the device are known"
    rounds = plan.batch.gradient_accumulation
    flops = max(
        sum(item.flops * (rounds * item.per_micro_batch + item.per_step) for item in trace.operations)
        for trace in traces.values()
    )
    return flops / (USUAL_UTILISATION * peak), f"{100 * USUAL_UTILISATION:.0f} % of the peak assumed"
