"""What another kernel or layout would save: bytes that a fused kernel would not move, and waiting that could overlap.

A fused kernel reads its inputs and writes its results once. What the traced operations of its kind move beyond that
is saved time on a device that is limited by its memory. Like the step itself, savings are what roofline, links and
schedule allow, divided by the efficiency of published runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from llmperf.estimating.analytic import analytic_trace, first_rank_of
from llmperf.estimating.rank_sizes import rank_sizes
from llmperf.estimating.step_time import operation_times, step_time
from llmperf.types.estimate import OperationTime, Saving, StepTime
from llmperf.types.plan import Plan
from llmperf.types.rates import DeviceRates
from llmperf.types.tracing import OperationKind, StepTrace

LEAST_SHARE = 0.005
"""Savings of a smaller share of the step are left out."""


def savings(
    plan: Plan, traces: Mapping[int, StepTrace], rates: DeviceRates, time: StepTime, slowest: int
) -> tuple[Saving, ...]:
    """What would shorten the step, most first."""
    operations = operation_times(traces[slowest], rates, plan.batch.gradient_accumulation)
    candidates = [
        *_fused(plan, operations, rates, slowest),
        *_recomputed(plan, tuple(traces), rates, time),
        *_waiting(time, plan),
    ]
    ideal = time.seconds - time.loss_seconds
    slower = time.seconds / ideal if ideal else 1.0
    kept = [
        replace(saving, seconds=saving.seconds * slower)
        for saving in candidates
        if saving.seconds >= LEAST_SHARE * ideal
    ]
    return tuple(sorted(kept, key=lambda saving: -saving.seconds))


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


def _waiting(time: StepTime, plan: Plan) -> Iterator[Saving]:
    yield Saving(
        change="communication hidden behind computation",
        seconds=time.communication_seconds,
        basis="collectives that computation waits for",
    )
    yield Saving(
        change="no pipeline bubble",
        seconds=time.bubble_seconds,
        basis=f"schedule {plan.spec.tuning.pipeline_schedule}; more micro batches or virtual stages make it smaller",
    )
