"""The nearest settings with which the memory of a case suffices, tried by the analytic form."""

from __future__ import annotations

from dataclasses import replace

from llmperf.errors import LlmperfError
from llmperf.estimating.estimate import overhead_bytes
from llmperf.planning.build import plan_run
from llmperf.planning.fitting import MOST_TRIED, candidates
from llmperf.planning.states import Request
from llmperf.running.step_traces import analytic_traces
from llmperf.types.estimate import Estimate, FittingSetting
from llmperf.types.plan import Plan


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
