"""What a plan needs, by the analytic form, before anything starts: memory with activations, and the time of a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from llmperf.accounting.flops import workload_of
from llmperf.accounting.model_states import Transient, stage_state_bytes
from llmperf.estimating.analytic import analytic_trace, first_rank_of
from llmperf.estimating.memory import device_bytes, overhead_bytes
from llmperf.estimating.step_time import step_time
from llmperf.types.devices import Probe
from llmperf.types.plan import Plan, WorkerPlan
from llmperf.types.problems import Problem
from llmperf.types.spec import RunSpec
from llmperf.types.tracing import StepTrace, TracedMemory

TOLERANCE = 0.15
"""How far above the memory of a device the estimate must be to refuse a run: the analytic form is within this of traced
programs on the published cases."""
USUAL_OVERHEAD = 0.1
"""Share of a device's memory that a process is assumed to take beside its tensors (context, communication library,
fragmentation), where the device's rates do not say."""
USUAL_UTILISATION = 0.3
"""Share of the peak that the expected step time assumes, where the device's rates are not known."""
GIB = 2**30


def with_preflight(plan: Plan) -> Plan:
    """The plan with estimated memory and step time, and a note if the memory may not suffice."""
    traces = traced_stages(plan)
    seconds, basis = _step(plan, traces)
    plan = replace(
        plan,
        memory=tuple(_resident(trace.memory, plan) for trace in traces.values()),
        expected_step_seconds=seconds,
        expected_step_basis=basis,
    )
    note = memory_note(plan)
    return replace(plan, notes=(*plan.notes, note)) if note else plan


def state_bytes(spec: RunSpec, worker: WorkerPlan, probe: Probe) -> tuple[int, ...]:
    """Bytes of model states on a rank of each pipeline stage, without activations.

    Buffers of communication on a host are left out: they take no space before they are written.
    """
    trainable = workload_of(spec.model, spec.contract, spec.tuning).lora_parameters
    transient = Transient(
        update_bytes=worker.update_bytes_per_parameter,
        update_parameters=worker.update_parameters,
        buffer_bytes=0 if probe.on_cpu else worker.buffer_bytes,
        offloaded=worker.offloaded,
        sums_in_fp32=spec.tuning.accumulation_dtype == "fp32",
    )
    return stage_state_bytes(spec.model, worker.layout, spec.contract.precision, trainable, transient)


def traced_stages(plan: Plan) -> dict[int, StepTrace]:
    """The analytic trace of a rank of each pipeline stage, by the stage."""
    stages = range(plan.layout.pipeline_parallel)
    return {stage: analytic_trace(plan, first_rank_of(plan, stage)) for stage in stages}


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


def needed_bytes(plan: Plan) -> int:
    """The estimated peak of the rank that needs most."""
    return max((memory.peak_bytes for memory in plan.memory), default=0)


def fits(plan: Plan) -> bool:
    """Whether the estimated peak leaves room in the device for what a process takes beside its tensors."""
    available = device_bytes(plan)
    if available is None:
        return True
    needed = needed_bytes(plan)
    known = overhead_bytes(needed, plan.rates)
    return needed + (USUAL_OVERHEAD * available if known is None else known) <= available


def memory_note(plan: Plan) -> str | None:
    """That memory may not suffice; None if it is estimated to."""
    available = device_bytes(plan)
    if available is None or fits(plan):
        return None
    return (
        f"memory may not suffice: about {needed_bytes(plan) / GIB:.1f} GiB a rank are estimated, {available / GIB:.1f}"
        " GiB are there, and a process takes some beside its tensors"
    )


def peak_text(memory: TracedMemory) -> str:
    """The parts of a peak, largest first; none below a hundredth of it."""
    parts = sorted(memory.at_peak.items(), key=lambda part: -part[1])
    return ", ".join(f"{kind} {size / GIB:.2f}" for kind, size in parts if size >= 0.01 * memory.peak_bytes)


def estimate_problems(plan: Plan) -> list[Problem]:
    """A run whose estimated memory is far beyond that of its devices. An external script may hold something else."""
    available = device_bytes(plan)
    if available is None or plan.worker.script is not None or needed_bytes(plan) <= (1 + TOLERANCE) * available:
        return []
    memory = max(plan.memory, key=lambda each: each.peak_bytes)
    message = (
        f"about {memory.peak_bytes / GIB:.1f} GiB a rank are estimated ({peak_text(memory)}; highest at:"
        f" {memory.operation}), {available / GIB:.1f} GiB are there (--no-preflight starts it anyway)"
    )
    return [Problem(code="memory_estimate_too_large", where="tuning.micro_batch", message=message)]
