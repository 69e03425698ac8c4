"""What another kernel or layout would save: bytes that a fused kernel would not move, and waiting that could overlap.

A fused kernel reads its inputs and writes its results once. What the traced operations of its kind move beyond that
is saved time on a device that is limited by its memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from llmperf.accounting.precisions import precision_recipe
from llmperf.estimating.step_time import operation_times
from llmperf.types.estimate import OperationTime, Saving, StepTime
from llmperf.types.plan import Plan
from llmperf.types.rates import DeviceRates
from llmperf.types.tracing import OperationKind, StepTrace

LEAST_SHARE = 0.005
"""Savings of a smaller share of the step are left out."""


def savings(plan: Plan, trace: StepTrace, rates: DeviceRates, time: StepTime, slowest: int) -> tuple[Saving, ...]:
    """What would shorten the step, most first."""
    rounds = plan.batch.gradient_accumulation
    operations = operation_times(trace, rates, rounds)
    candidates = [
        *_fused(plan, operations, rates, slowest),
        *_recomputed(plan, operations),
        *_waiting(time, plan),
    ]
    kept = [saving for saving in candidates if saving.seconds >= LEAST_SHARE * time.seconds]
    return tuple(sorted(kept, key=lambda saving: -saving.seconds))


def _fused(plan: Plan, operations: tuple[OperationTime, ...], rates: DeviceRates, stage: int) -> Iterator[Saving]:
    least = least_bytes(plan, stage)
    for kind, bytes_needed in least.items():
        spent = sum(item.seconds or 0.0 for item in operations if item.kind == kind)
        yield Saving(
            change=f"fused {kind}",
            seconds=max(0.0, spent - bytes_needed / rates.memory_bytes_per_second),
            basis="each input read and each result written once by one kernel forward and one backward",
        )


def least_bytes(plan: Plan, stage: int) -> Mapping[OperationKind, float]:
    """Bytes that fused kernels move in a step of a stage, by kind of operation."""
    model, layout, tuning = plan.spec.model, plan.layout, plan.spec.tuning
    element = precision_recipe(plan.spec.contract.precision).rest_bytes
    tokens = plan.batch.gradient_accumulation * plan.batch.micro_batch * plan.batch.seq_len / layout.context_parallel
    layers = model.layers / layout.pipeline_parallel
    last = stage == layout.pipeline_parallel - 1
    again = 2 if tuning.gradient_checkpointing else 1
    split = layout.tensor_parallel
    in_norms = split if layout.sequence_parallel else 1
    width = element * tokens
    norms = (2 * layers + (1 if last else 0)) * model.hidden_size / in_norms
    heads = model.hidden_size * (1 + model.kv_heads / model.attention_heads) / split * layers
    least: dict[OperationKind, float] = {
        "norm": width * norms * (2 * again + 3),
        "activation": width * model.intermediate_size / split * layers * (3 * again + 5),
        "loss": width * model.vocab_size / split * 2 if last else 0.0,
    }
    if model.position_encoding == "rope":
        least["rope"] = width * heads * (2 * again + 2)
    return least


def _recomputed(plan: Plan, operations: tuple[OperationTime, ...]) -> Iterator[Saving]:
    if not plan.spec.tuning.gradient_checkpointing:
        return
    forward = sum(
        item.seconds or 0.0 for item in operations if item.phase == "forward" and item.kind not in ("loss", "embedding")
    )
    share = 1 / plan.spec.tuning.recompute_every
    yield Saving(
        change="no gradient checkpointing, if the memory suffices",
        seconds=forward * share,
        basis="the forward pass of the blocks is computed once instead of twice",
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
