"""The nearest settings with which the memory of a case suffices, tried by the analytic form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from llmperf.errors import LlmperfError
from llmperf.estimating.memory import overhead_bytes
from llmperf.planning.build import plan_run
from llmperf.planning.states import Request
from llmperf.running.step_traces import analytic_traces
from llmperf.types.estimate import Estimate, FittingSetting
from llmperf.types.plan import Plan

MOST_TRIED = 24


def nearest_setting(request: Request, plan: Plan, estimate: Estimate) -> FittingSetting | None:
    """The first change that fits, smallest changes first; None if none does.

    The analytic form is scaled by what the trace of the case itself found against it.
    """
    capacity = estimate.memory[0].capacity_bytes
    if capacity is None:
        return None
    scale = max(stage.peak_bytes for stage in estimate.memory) / _peak(plan)
    for tried, settings in enumerate(candidates(plan)):
        if tried >= MOST_TRIED:
            break
        try:
            outcome = plan_run(replace(request, settings=(*request.settings, *settings), skip_peak_and_env=True))
        except LlmperfError:
            continue
        if outcome.problems or outcome.plan is None:
            continue
        peak = round(_peak(outcome.plan) * scale)
        total = peak + (overhead_bytes(peak, estimate.rates) or 0)
        if total <= capacity:
            return FittingSetting(settings=settings, total_bytes=total)
    return None


def _peak(plan: Plan) -> int:
    return max(trace.memory.peak_bytes for trace in analytic_traces(plan).stages.values())


def candidates(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Changes that take less memory, those that change least first. The global batch stays."""
    tuning, layout = plan.spec.tuning, plan.layout
    smaller = [f"micro_batch={size}" for size in _halves(tuning.micro_batch)]
    checkpointing = [] if tuning.gradient_checkpointing else ["gradient_checkpointing=true"]
    stages = range(layout.sharding_stage + 1, 4) if layout.data_parallel * layout.context_parallel > 1 else ()
    sharding = [f"sharding_stage={stage}" for stage in stages]
    yield from ((change,) for change in (*smaller, *checkpointing, *sharding))
    yield from ((size, other) for other in (*checkpointing, *sharding) for size in smaller[-1:])
    yield from ((other, *checkpointing) for other in sharding if checkpointing)
    yield from ((smaller[-1], *checkpointing, other) for other in sharding if smaller and checkpointing)
    last = (*smaller[-1:], *checkpointing, *sharding[-1:])
    yield from ((*last, f"framework.offload={what}") for what in ("optimizer", "parameters"))
    for degree in (2, 4, 8):
        if degree > tuning.tensor_parallel and layout.devices_per_node % degree == 0:
            yield (*smaller[-1:], *checkpointing, f"tensor_parallel={degree}")


def _halves(size: int) -> list[int]:
    sizes = []
    while size > 1:
        size //= 2
        sizes.append(size)
    return sizes
