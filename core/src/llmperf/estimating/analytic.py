"""The analytic trace: one step of one rank by formulas, in milliseconds and without the framework."""

from __future__ import annotations

from llmperf.accounting.parameters import count_parameters
from llmperf.accounting.precisions import products_dtype
from llmperf.estimating.analytic_collectives import analytic_collectives
from llmperf.estimating.analytic_memory import analytic_memory
from llmperf.estimating.analytic_operations import analytic_operations
from llmperf.estimating.expert_load import load_notes
from llmperf.estimating.rank_sizes import rank_sizes
from llmperf.types.plan import Plan
from llmperf.types.tracing import StepTrace

NOTE = "analytic: counted from the model's facts, the layout and the tuning; the framework's own code was not traced"
FP8_NOTE = "fp8: casts are counted by the bytes that their operations move, not by measurement"
COMPILE_NOTE = "compile: chains of elementwise operations are modelled as one kernel each, not measured"


def analytic_trace(plan: Plan, rank: int) -> StepTrace:
    """A step of one rank of a plan, as `llmperf_trace_step` would return it."""
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


def first_rank_of(plan: Plan, stage: int) -> int:
    """The first rank of a pipeline stage."""
    return next(rank for rank in range(plan.layout.world_size) if plan.layout.coordinate(rank, "pipeline") == stage)
