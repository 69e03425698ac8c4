"""Checks of a planned run by plugins: problems, notes, and the memory and step time to expect."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from llmperf.errors import PluginError
from llmperf.files.text import printable
from llmperf.plugins.faults import of_kind
from llmperf.plugins.loading import Plugins, plugins_for
from llmperf.types.plan import Plan
from llmperf.types.plan_checks import ExpectedWork, PlanCheck, Problem

HOOK = "llmperf_plan_checks"
MAX_NOTE = 1000


class Checked(NamedTuple):
    """A plan with what plugins expect of it."""

    plan: Plan
    problems: list[Problem]
    fits: bool
    """No check doubts that the devices suffice."""


def checked(plan: Plan, plugins: Plugins) -> Checked:
    """Ask all plugins; a faulty answer is left out with a note. Of two expectations of one figure the first counts."""
    faults = list[str]()
    notes, problems, fits = list[str](), list[Problem](), True
    memory, seconds, basis = plan.memory, plan.expected_step_seconds, plan.expected_step_basis
    for key, answer in plugins.collect_sound(HOOK, faults, plan=plan):
        try:
            check = of_kind(plugins.found(key), HOOK, answer, PlanCheck)
        except PluginError as error:
            faults.append(str(error))
            continue
        if (wrong := _wrong(check, plan)) is not None:
            faults.append(f"{plugins.who(key)}: {HOOK}: {wrong}")
            continue
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
    return Checked(plan, problems, fits)


def expected_work(plan: Plan) -> tuple[ExpectedWork, ...]:
    """The work of each pipeline stage, by the first extension that expects any; empty without one."""
    plugins, faults = plugins_for(), list[str]()
    for key, answer in plugins.collect_sound(HOOK, faults, plan=plan):
        check = of_kind(plugins.found(key), HOOK, answer, PlanCheck)
        if check.work and _wrong(check, plan) is None:
            return check.work
    return ()


def _wrong(check: PlanCheck, plan: Plan) -> str | None:
    """A message with the expected and found value of an answer that cannot be right; None if it can."""
    seconds, stages = check.step_seconds, plan.layout.pipeline_parallel
    if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
        return f"step_seconds: expected a finite number above 0, found {seconds!r}"
    for name, given in (("memory", check.memory), ("work", check.work)):
        if given and len(given) != stages:
            return f"{name}: expected that of {stages} pipeline stages, found {len(given)}"
    return None
