"""Traces of a step: by formulas, in milliseconds, or by the framework, if what it gives can be right."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from llmperf.accounting import count_parameters, products_dtype
from llmperf.errors import UserError
from llmperf.types.plan import Plan
from llmperf.types.tracing import StepTrace, TracedOperation

from llmperf_estimate.collectives import analytic_collectives
from llmperf_estimate.memory import analytic_memory
from llmperf_estimate.operations import analytic_operations
from llmperf_estimate.rank_sizes import load_notes, rank_sizes
from llmperf_estimate.traced_ranks import trace_ranks
from llmperf_estimate.types import TracerUse

UNKNOWN = "no formulas give memory and time of a step of a counted model"
NOTE = "analytic: counted from the model's facts, the layout and the tuning; the framework's own code was not traced"
FP8_NOTE = "fp8: casts are counted by the bytes that their operations move, not by measurement"
COMPILE_NOTE = "compile: chains of elementwise operations are modelled as one kernel each, not measured"


def analytic_trace(plan: Plan, rank: int) -> StepTrace:
    """A step of one rank of a plan, as `llmperf_trace_step` would return it; UserError for a counted model."""
    if plan.spec.model.counted is not None:
        raise UserError(f"model {plan.spec.model.name}: {UNKNOWN}")
    sizes = rank_sizes(plan, rank)
    modelled = [FP8_NOTE] if products_dtype(plan.spec.contract) == "fp8" else []
    modelled += [COMPILE_NOTE] if plan.spec.tuning.compile else []
    return StepTrace(
        rank=rank,
        method="analytic",
        traced_micro_batches=0,
        operations=analytic_operations(sizes),
        collectives=analytic_collectives(sizes, rank),
        host_waits=None,
        memory=analytic_memory(sizes),
        parameters=count_parameters(plan.spec.model).total,
        notes=(NOTE, *load_notes(plan), *modelled),
    )


ALL_STAGES = 4
"""With more pipeline stages than these, the second stands for all in the middle: it holds the most micro batches."""
TRACE_SECONDS = 300.0
"""Time limit of the framework's trace of one rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """The traced stages by their index, and what tracing took."""

    stages: Mapping[int, StepTrace]
    use: tuple[TracerUse, ...]
    notes: tuple[str, ...]


def analytic_traces(plan: Plan) -> Traces:
    """The stages by formulas alone, within milliseconds."""
    stages = {stage: analytic_trace(plan, first_rank_of(plan, stage)) for stage in _chosen_stages(plan)}
    return Traces(stages=stages, use=(), notes=())


def step_traces(plan: Plan, progress: Callable[[str], None], seconds: float = TRACE_SECONDS) -> Traces:
    """The stages by the framework; by formulas, with a note, where it has no trace or an impossible one."""
    ranks = {stage: first_rank_of(plan, stage) for stage in _chosen_stages(plan)}
    stages, use = dict[int, StepTrace](), list[TracerUse]()
    traced = trace_ranks(plan, tuple(ranks.values()), progress, seconds)
    for (stage, rank), (trace, used) in zip(ranks.items(), traced, strict=True):
        if trace is not None and (wrong := wrong_trace(trace, plan, rank)) is not None:
            problem = f"{plan.spec.tuning.framework}: llmperf_trace_step: {wrong}"
            trace, used = None, replace(used, problem=problem)
        if trace is None and plan.spec.model.counted is not None:
            raise UserError(f"model {plan.spec.model.name}: {UNKNOWN}, and the trace failed: {used.problem}")
        stages[stage] = trace or analytic_trace(plan, rank)
        use.append(used)
    reasons = dict.fromkeys(each.problem for each in use if each.problem is not None)
    notes = tuple(f"estimated by formulas, not by a trace: {reason}" for reason in reasons)
    return Traces(stages=stages, use=tuple(use), notes=notes)


def _chosen_stages(plan: Plan) -> Sequence[int]:
    stages = plan.layout.pipeline_parallel
    return range(stages) if stages <= ALL_STAGES else (0, 1, stages - 1)


def first_rank_of(plan: Plan, stage: int) -> int:
    """The first rank of a pipeline stage."""
    return next(rank for rank in range(plan.layout.world_size) if plan.layout.coordinate(rank, "pipeline") == stage)


SHARE = 0.02
"""Two ways to say the same may differ by so much."""
PARAMETER_SHARE = 0.05
"""The same for parameters: a trainer may pad its vocabulary, or have adapters."""
LEAST_SHARE = 0.5
"""Least share of the products by formulas that a trace must have: a trainer may fuse some into other operations."""


def wrong_trace(trace: StepTrace, plan: Plan, rank: int) -> str | None:
    """Where a trace contradicts itself or its plan, what was expected and found; None if it does not."""
    if trace.rank != rank:
        return f"rank: expected {rank}, which was asked for, found {trace.rank}"
    parameters = plan.flops.parameters
    if trace.parameters is not None and abs(trace.parameters - parameters) > PARAMETER_SHARE * parameters:
        return f"parameters: expected those of the plan, {parameters:,}, found {trace.parameters:,}"
    held, peak = sum(trace.memory.at_peak.values()), trace.memory.peak_bytes
    if abs(held - peak) > SHARE * peak:
        return f"memory.at_peak: expected a sum of peak_bytes, {peak:,}, found {held:,}"
    for place, operation in enumerate(trace.operations):
        shape, flops = operation.shape, operation.flops
        expected = 2 * math.prod(shape) if operation.kind == "matmul" and len(shape) == 4 else 0
        if expected and abs(flops - expected) > SHARE * expected:
            return f"operations.{place}.flops: expected {expected:,} of the shape {shape}, found {flops:g}"
    if plan.flops.counted_by == "core":  # a trainer whose tensors are on the host gives a trace of nearly nothing
        if (facts := plan.spec.model.counted) is not None:
            products = 3 * facts.forward_flops * plan.batch.tokens_per_step / plan.layout.data_parallel
        else:
            sizes = rank_sizes(plan, trace.rank)
            formulas = (operation for operation in analytic_operations(sizes) if operation.kind == "matmul")
            products = _step_flops(formulas, plan) / max(1.0, sizes.expert_load)
        computed = _step_flops(trace.operations, plan)
        if computed < LEAST_SHARE * products:
            advice = "a trainer's tensors belong on the device that `Device.places` names"
            what = f"expected about {products:.3g} FLOPs of products in a step, found {computed:.3g}"
            return f"operations: {what}; {advice}"
    # data-parallel ranks that send each other nothing train different models
    layout = plan.layout
    counted = [collective for collective in trace.collectives if collective.per_micro_batch or collective.per_step]
    shares = [{layout.data_parallel_rank(each) for each in collective.ranks} for collective in counted]
    if layout.data_parallel == 1 or any(len(share) > 1 for share in shares):
        return None
    ranks = f"{layout.data_parallel} data-parallel ranks"
    return f"collectives: expected one between {ranks}, which average their gradients, found none"


def _step_flops(operations: Iterable[TracedOperation], plan: Plan) -> float:
    count = plan.batch.gradient_accumulation
    return sum(one.flops * (one.per_micro_batch * count + one.per_step) for one in operations)
