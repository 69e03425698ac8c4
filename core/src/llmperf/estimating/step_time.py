"""The time of a step from the traces of its pipeline stages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from llmperf.estimating.calibration import calibration
from llmperf.estimating.seconds import collective_seconds, operation_seconds, scope_of, sent_bytes
from llmperf.types.estimate import Communication, OperationTime, StageTime, StepTime
from llmperf.types.layout import Layout
from llmperf.types.plan import Plan
from llmperf.types.rates import DeviceRates
from llmperf.types.tracing import Phase, StepTrace, TracedCollective, TracedOperation

PHASES: tuple[Phase, ...] = ("forward", "backward", "update")
ZERO_BUBBLE_SHARE = 1 / 3
"""Part of the bubble of 1F1B that is left when the gradients of weights fill it: Qi et al. 2023, "Zero Bubble Pipeline
Parallelism", table 2, schedule ZB-H1, with equal times of forward, input gradients and weight gradients."""


@dataclass(frozen=True, slots=True)
class Busy:
    """Seconds of one stage."""

    compute: float
    exposed: float
    hidden: float

    @property
    def total(self) -> float:
        """Of computation and of communication that it does not hide."""
        return self.compute + self.exposed


@dataclass(frozen=True, slots=True)
class StageBusy:
    """Of each micro batch, and once a step."""

    micro_batch: Busy
    once: Busy


def stage_busy(trace: StepTrace, rates: DeviceRates, layout: Layout) -> StageBusy:
    """How long a stage is busy; ValueError if a rate is not known."""
    micro, once = _compute(trace, rates, "per_micro_batch"), _compute(trace, rates, "per_step")
    per_micro = _communication(trace, rates, layout, "per_micro_batch")
    per_step = _communication(trace, rates, layout, "per_step")
    beside = {phase: micro[phase] + once[phase] for phase in PHASES}  # once a step: beside the last micro batch
    return StageBusy(_busy(micro, per_micro, micro), _busy(once, per_step, beside))


def _busy(
    compute: Mapping[Phase, float], waits: Mapping[tuple[Phase, bool], float], beside: Mapping[Phase, float]
) -> Busy:
    exposed = sum(waits[phase, False] + max(0.0, waits[phase, True] - beside[phase]) for phase in PHASES)
    return Busy(sum(compute.values()), exposed, sum(waits.values()) - exposed)


def _compute(trace: StepTrace, rates: DeviceRates, count: str) -> dict[Phase, float]:
    seconds = dict.fromkeys(PHASES, 0.0)
    for operation in trace.operations:
        if times := getattr(operation, count):
            seconds[operation.phase] += times * operation_seconds(operation, rates)
    return seconds


def _communication(trace: StepTrace, rates: DeviceRates, layout: Layout, count: str) -> dict[tuple[Phase, bool], float]:
    seconds = {(phase, overlaps): 0.0 for phase in PHASES for overlaps in (False, True)}
    for collective in trace.collectives:
        if times := getattr(collective, count):
            seconds[collective.phase, collective.overlaps] += times * collective_seconds(collective, rates, layout)
    return seconds


def step_time(plan: Plan, traces: Mapping[int, StepTrace], rates: DeviceRates) -> tuple[StepTime, int]:
    """The time of a step, and its slowest stage.

    `traces` has the trace of each stage by its index; stages without one are like the nearest earlier stage. ValueError
    if a rate is not known.
    """
    busy = {stage: stage_busy(trace, rates, plan.layout) for stage, trace in traces.items()}
    slowest = max(busy, key=lambda stage: busy[stage].micro_batch.total)
    longest, once = busy[slowest].micro_batch, max((stage.once for stage in busy.values()), key=lambda part: part.total)
    stages = [busy[like(stage, busy)].micro_batch.total for stage in range(plan.layout.pipeline_parallel)]
    rounds = plan.batch.gradient_accumulation
    bubble = bubble_seconds(stages, plan.spec.tuning.pipeline_schedule, plan.spec.tuning.virtual_stages)
    ideal = rounds * longest.total + once.total + bubble
    seconds = ideal / calibration().efficiency[traces[slowest].method]
    return StepTime(
        seconds=seconds,
        compute_seconds=rounds * longest.compute + once.compute,
        communication_seconds=rounds * longest.exposed + once.exposed,
        bubble_seconds=bubble,
        loss_seconds=seconds - ideal,
        hidden_communication_seconds=rounds * longest.hidden + once.hidden,
    ), slowest


def like(stage: int, traced: Mapping[int, object]) -> int:
    """The traced stage whose figures are used for a stage: itself, or the closest one before it."""
    return max((other for other in traced if other <= stage), default=min(traced))


def bubble_seconds(stages: list[float], schedule: str, virtual_stages: int = 1) -> float:
    """How long the slowest stage waits for the others in a step, from the time of each for one micro batch.

    Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters", section 2.2: filling and
    draining take each other stage's time once; with v chunks on each rank, 1/v of it.
    """
    bubble = sum(stages) - max(stages)
    if schedule == "zero_bubble":
        return bubble * ZERO_BUBBLE_SHARE
    return bubble / virtual_stages if schedule == "interleaved" else bubble


def stage_times(traces: Mapping[int, StepTrace], rates: DeviceRates, layout: Layout) -> tuple[StageTime, ...]:
    """Busy time of each traced stage."""
    busy = {stage: stage_busy(trace, rates, layout) for stage, trace in sorted(traces.items())}
    return tuple(
        StageTime(stage=stage, micro_batch_seconds=part.micro_batch.total, step_seconds=part.once.total)
        for stage, part in busy.items()
    )


def operation_times(trace: StepTrace, rates: DeviceRates | None, rounds: int) -> tuple[OperationTime, ...]:
    """The operations of a stage by kind and phase, longest first; `rounds` micro batches in a step."""
    groups: dict[tuple[str, str], list[TracedOperation]] = defaultdict(list)
    for operation in trace.operations:
        groups[operation.kind, operation.phase].append(operation)
    times = [
        OperationTime(
            kind=group[0].kind,
            phase=group[0].phase,
            seconds=None if rates is None else sum(n * operation_seconds(item, rates) for item, n in counted),
            flops=sum(n * item.flops for item, n in counted),
            bytes=float(sum(n * item.bytes for item, n in counted)),
            kernels=sum(n * item.kernels for item, n in counted),
        )
        for group in groups.values()
        for counted in [[(item, item.per_micro_batch * rounds + item.per_step) for item in group]]
    ]
    return tuple(sorted(times, key=lambda item: (-(item.seconds or 0.0), -item.bytes)))


def communications(
    trace: StepTrace, rates: DeviceRates | None, layout: Layout, rounds: int
) -> tuple[Communication, ...]:
    """The communication of a stage, longest first."""
    groups: dict[tuple[object, ...], list[TracedCollective]] = defaultdict(list)
    for item in trace.collectives:
        if len(item.ranks) > 1:
            scope = scope_of(item.ranks, layout)
            groups[item.collective, scope, item.phase, len(item.ranks), item.overlaps].append(item)
    volumes = [
        Communication(
            collective=group[0].collective,
            scope=scope_of(group[0].ranks, layout),
            phase=group[0].phase,
            ranks=len(group[0].ranks),
            times=sum(n for _, n in counted),
            sent_bytes=sum(n * sent_bytes(item) for item, n in counted),
            seconds=None if rates is None else sum(n * collective_seconds(item, rates, layout) for item, n in counted),
            overlaps=group[0].overlaps,
        )
        for group in groups.values()
        for counted in [[(item, item.per_micro_batch * rounds + item.per_step) for item in group]]
    ]
    return tuple(sorted(volumes, key=lambda item: (-(item.seconds or 0.0), -item.sent_bytes)))
