"""Checks of a planned run by plugins: problems, notes, and the memory and step time to expect."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from llmperf.errors import PluginError
from llmperf.files.text import printable
from llmperf.plugins.faults import of_kind
from llmperf.plugins.loading import Plugins, plugins_for
from llmperf.types.plan import Plan
from llmperf.types.plan_checks import ExpectedWork, PlanCheck, Problem

HOOK = "llmperf_plan_checks"
MAX_NOTE = 1000


def checked(plan: Plan, plugins: Plugins) -> tuple[Plan, list[Problem], bool]:
    """The plan with what plugins expect of it, their problems, and whether no check doubts that the devices suffice.

    A faulty answer is left out with a note. Of two expectations of one figure the first counts.
    """
    faults = list[str]()
    notes, problems, fits = list[str](), list[Problem](), True
    memory, seconds, basis = plan.memory, plan.expected_step_seconds, plan.expected_step_basis
    for check in _sound(plan, plugins, faults):
        problems += check.problems
        notes += [printable(note, " ")[:MAX_NOTE] for note in check.notes]
        memory = memory or check.memory
        if seconds is None and not basis:
            seconds, basis = check.step_seconds, check.step_basis
        fits = fits and check.fits
    new = [note for note in (*notes, *(f"left out: {line}" for line in faults)) if note not in plan.notes]
    plan = replace(
        plan, memory=memory, expected_step_seconds=seconds, expected_step_basis=basis, notes=(*plan.notes, *new)
    )
    return plan, problems, fits


def expected_work(plan: Plan) -> tuple[ExpectedWork, ...]:
    """The work of each pipeline stage, by the first extension that expects any; empty without one."""
    return next((check.work for check in _sound(plan, plugins_for(), []) if check.work), ())


def _sound(plan: Plan, plugins: Plugins, faults: list[str]) -> Iterator[PlanCheck]:
    """The answers of all plugins; one that cannot be right is left out, with a line in `faults`."""
    stages = plan.layout.pipeline_parallel
    for key, answer in plugins.collect_sound(HOOK, faults, plan=plan):
        try:
            check = of_kind(plugins.found(key), HOOK, answer, PlanCheck)
        except PluginError as error:
            faults.append(str(error))
            continue
        sizes, seconds = {"memory": check.memory, "work": check.work}, check.step_seconds
        wrong = [
            f"{name}: expected that of {stages} pipeline stages, found {len(given)}"
            for name, given in sizes.items()
            if given and len(given) != stages
        ]
        if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
            wrong.insert(0, f"step_seconds: expected a finite number above 0, found {seconds!r}")
        if wrong:
            faults.append(f"{plugins.who(key)}: {HOOK}: {wrong[0]}")
        else:
            yield check
