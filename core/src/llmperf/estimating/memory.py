"""Memory of each pipeline stage: its traced tensors, what a process takes beside them, and what the device has."""

from __future__ import annotations

from collections.abc import Mapping

from llmperf.estimating.calibration import calibration
from llmperf.types.estimate import StageMemory
from llmperf.types.plan import Plan
from llmperf.types.rates import DeviceRates
from llmperf.types.tracing import StepTrace


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
