"""Suggestions for a run that was refused: another installed framework, or the nearest settings that fit in memory."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from llmperf.errors import LlmperfError
from llmperf.planning.build import plan_on
from llmperf.planning.nodes import installed_problem, packages_problem
from llmperf.planning.states import Outcome, Planned, Request
from llmperf.plugins.discovery import names
from llmperf.plugins.own_packages import published
from llmperf.types.plan import Plan

MEMORY_PROBLEMS = ("memory_too_small", "memory_estimate_too_large")
"""Problems of plans that need more memory than there is."""
FRAMEWORK_PROBLEM = "framework_unusable"
MOST_TRIED = 24


def with_suggestions(outcome: Outcome, request: Request) -> Outcome:
    """The outcome; its problems name what could run instead, if a framework is unusable or memory is all that lacks."""
    if isinstance(outcome, Planned):
        return outcome
    suggestion, advised = "", [FRAMEWORK_PROBLEM]
    if all(problem.code in MEMORY_PROBLEMS for problem in outcome.problems) and outcome.plan is not None:
        advised = [*MEMORY_PROBLEMS]
        nearest = next((settings for settings, planned in smaller(outcome, request) if planned.fits), None)
        options = " ".join(f"--set {shlex.quote(setting)}" for setting in nearest or ())
        suggestion = f"; nearest that fits: {options}" if nearest else ""
    elif any(problem.code in advised for problem in outcome.problems) and outcome.machine.here:
        working = [f"--framework {name}" for name in _usable_frameworks(outcome, request)]
        suggestion = f"; what is installed can run it by {' or '.join(working)}" if working else ""
    problems = tuple(
        replace(problem, message=problem.message + suggestion) if problem.code in advised else problem
        for problem in outcome.problems
    )
    return replace(outcome, problems=problems, plan=outcome.plan and replace(outcome.plan, problems=problems))


def _planned_with(outcome: Outcome, request: Request, settings: Sequence[str]) -> Planned | None:
    """The same run with further settings on the same machine; None if it has problems."""
    selection, site, options = request
    changed = replace(selection, settings=(*selection.settings, *settings))
    try:
        tried = plan_on(outcome.machine, changed, site, options)
    except LlmperfError:
        return None
    return tried if isinstance(tried, Planned) else None


def _usable_frameworks(outcome: Outcome, request: Request) -> Iterator[str]:
    """Installed frameworks that could start the same run, in place of one that is not installed or misses packages."""
    framework, installed = outcome.spec.tuning.framework, names("framework")
    if framework not in installed and published().get(("framework", framework)) is None:
        return
    for name in installed:
        if name == framework or packages_problem(name) or installed_problem(outcome.machine, "framework", name):
            continue
        if _planned_with(outcome, request, [f"tuning.framework={name}"]) is not None:
            yield name


def smaller(outcome: Outcome, request: Request) -> Iterator[tuple[tuple[str, ...], Planned]]:
    """Settings that take less memory and have no problems, with the run so planned: the nearest first."""
    for settings in islice(candidates(outcome.plan), MOST_TRIED) if outcome.plan is not None else ():
        planned = _planned_with(outcome, request, settings)
        if planned is not None:
            yield settings, planned


def candidates(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Changes that take less memory, those that change least first. The global batch stays."""
    tuning, layout = plan.spec.tuning, plan.layout
    free = [] if "auto" in tuning.fused_ops else ['fused_ops=["auto"]']
    free += ["attention=auto"] if tuning.attention == "eager" else []
    yield from ((change,) for change in free)
    if len(free) > 1:
        yield tuple(free)
    halved = (tuning.micro_batch >> times for times in range(1, tuning.micro_batch.bit_length()))
    smaller = [f"micro_batch={size}" for size in halved]
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
