"""The time of a step from the traces of its pipeline stages, and what another kernel or layout would save.

A fused kernel reads its inputs and writes its results once. What the traced operations of its kind move beyond that
is saved time on a device that is limited by its memory. Like the step itself, savings are what roofline, links and
schedule allow, divided by the efficiency of published runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from llmperf.types.layout import Layout
from llmperf.types.plan import Plan
from llmperf.types.rates import DeviceRates
from llmperf.types.tracing import OperationKind, Phase, StepTrace, TracedCollective, TracedOperation

from llmperf_estimate.calibration import calibration
from llmperf_estimate.rank_sizes import rank_sizes
from llmperf_estimate.seconds import collective_seconds, operation_seconds, scope_of, sent_bytes
from llmperf_estimate.traces import analytic_trace, first_rank_of
from llmperf_estimate.types import Communication, OperationTime, Saving, StageTime, StepTime

PHASES: tuple[Phase, ...] = ("forward", "backward", "update")
ZERO_BUBBLE_SHARE = 1 / 3
"""Part of the bubble of 1F1B that is left when the gradients of weights fill it: Qi et al. 2023, "Zero Bubble Pipeline
Parallelism", table 2, schedule ZB-H1, with equal times of forward, input gradients and weight gradients."""


class Busy(NamedTuple):
    """Seconds of one stage."""

    compute: float
    exposed: float
    hidden: float

    @property
    def total(self) -> float:
        """Seconds of computation and of communication that it does not hide."""
        return self.compute + self.exposed


class StageBusy(NamedTuple):
    """Seconds of each micro batch, and once a step."""

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
    """The time of a step, and its slowest stage; `traces` by stage, missing ones like the nearest earlier stage."""
    busy = {stage: stage_busy(trace, rates, plan.layout) for stage, trace in traces.items()}
    slowest = max(busy, key=lambda stage: busy[stage].micro_batch.total)
    longest, once = busy[slowest].micro_batch, max((stage.once for stage in busy.values()), key=lambda part: part.total)
    every = range(plan.layout.pipeline_parallel)
    nearest = [max((other for other in busy if other <= stage), default=min(busy)) for stage in every]
    stages = [busy[stage].micro_batch.total for stage in nearest]
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


LEAST_SHARE = 0.005
"""Savings of a smaller share of the step are left out."""


def savings(
    plan: Plan, traces: Mapping[int, StepTrace], rates: DeviceRates, time: StepTime, slowest: int
) -> tuple[Saving, ...]:
    """Changes that would shorten the step, most first."""
    operations = operation_times(traces[slowest], rates, plan.batch.gradient_accumulation)
    schedule = f"schedule {plan.spec.tuning.pipeline_schedule}; more micro batches or virtual stages"
    candidates = [
        *_fused(plan, operations, rates, slowest),
        *_recomputed(plan, tuple(traces), rates, time),
        Saving(
            change="communication hidden behind computation",
            seconds=time.communication_seconds,
            basis="collectives that computation waits for",
        ),
        Saving(change="no pipeline bubble", seconds=time.bubble_seconds, basis=f"{schedule} make it smaller"),
    ]
    ideal = time.seconds - time.loss_seconds
    slower = time.seconds / ideal if ideal else 1.0
    kept = [saving for saving in candidates if saving.seconds >= LEAST_SHARE * ideal]
    longer = (replace(saving, seconds=saving.seconds * slower) for saving in kept)
    return tuple(sorted(longer, key=lambda saving: -saving.seconds))


def _fused(plan: Plan, operations: tuple[OperationTime, ...], rates: DeviceRates, stage: int) -> Iterator[Saving]:
    for kind, bytes_needed in least_bytes(plan, stage).items():
        spent = sum(item.seconds or 0.0 for item in operations if item.kind == kind)
        yield Saving(
            change=f"fused {kind}",
            seconds=max(0.0, spent - bytes_needed / rates.memory_bytes_per_second),
            basis="each input read and each result written once by one kernel forward and one backward",
        )


def least_bytes(plan: Plan, stage: int) -> Mapping[OperationKind, float]:
    """Bytes that fused kernels move in a step of a stage, by kind of operation."""
    sizes = rank_sizes(plan, first_rank_of(plan, stage))
    model, again = sizes.model, sizes.recomputed_blocks
    element = sizes.compute_bytes * sizes.tokens * plan.batch.gradient_accumulation
    stream = sizes.hidden / sizes.sequence_parts
    turned = sizes.query_width + sizes.key_width
    normed = model.norms_per_block * stream + (turned if model.qk_norm != "none" else 0)
    gates = [kind.inner * (8 * kind.blocks + 3 * kind.recomputed_blocks) for kind in sizes.kinds]
    least: dict[OperationKind, float] = {
        "norm": element * (normed * (5 * sizes.blocks + 2 * again) + (5 * stream if sizes.last else 0)),
        "activation": element * sum(gates),
        "loss": element * sizes.vocabulary * 2 if sizes.last else 0.0,
    }
    if model.position_encoding == "rope":
        least["rope"] = element * turned * (4 * sizes.blocks + 2 * again)
    return least


def _recomputed(plan: Plan, stages: tuple[int, ...], rates: DeviceRates, time: StepTime) -> Iterator[Saving]:
    """The step by formulas with and without recomputation, as a share of this one."""
    tuning = plan.spec.tuning
    if not tuning.gradient_checkpointing:
        return
    kept = replace(plan, spec=replace(plan.spec, tuning=replace(tuning, gradient_checkpointing=False)))
    steps = []
    try:
        for each in (plan, kept):
            by_formulas = {stage: analytic_trace(each, first_rank_of(each, stage)) for stage in stages}
            steps.append(step_time(each, by_formulas, rates)[0].seconds)
    except ValueError:  # the formulas need a rate that the trace did not
        return
    blocks = "all blocks" if tuning.recompute_every == 1 else f"1 in {tuning.recompute_every} blocks"
    parts = {
        "operations": f"norms, positions and activations of {blocks}",
        "block": f"the forward pass of {blocks}, with its communication,",
    }
    yield Saving(
        change="no gradient checkpointing, if the memory suffices",
        seconds=(time.seconds - time.loss_seconds) * max(0.0, 1 - steps[1] / steps[0]),
        basis=f"{parts[tuning.recompute]} computed once instead of twice: steps by formulas with and without it",
    )
