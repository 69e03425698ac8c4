"""`--trace` of `llmperf run`: which steps after the measured ones rank 0 keeps a trace of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click
from llmperf.errors import UserError
from llmperf.types import CalledRun, CommandOptions, Plan, PlannedRun

HOOK = "llmperf_profile_steps"


class Steps(click.types.StringParamType):
    """`3`: so many steps; `12-14`, `12,15`: those with these numbers."""

    most = 50

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number of steps, or their numbers in order; click's error for another text and for more than 50 steps."""
        if isinstance(value, (int, tuple)):
            return value
        text = str(value).strip()
        if text.isascii() and text.isdecimal() and len(text) < 10:
            count, chosen = int(text), tuple[int, ...]()
        else:
            ranges = [part.strip().split("-") for part in text.split(",")]
            ends = [end for ends in ranges for end in ends]
            known = all(end.isascii() and end.isdecimal() and 0 < int(end[:10]) < 10**9 for end in ends)
            if not known or any(len(ends) > 2 or int(ends[0]) > int(ends[-1]) for ends in ranges):
                self.fail(f"expected a number of steps or steps such as 12-14 or 12,15; found {value!r}.", param, ctx)
            count = sum(int(ends[-1]) + 1 - int(ends[0]) for ends in ranges)
            wanted = [range(int(ends[0]), int(ends[-1]) + 1) for ends in ranges if count <= self.most]
            chosen = tuple(sorted({step for steps in wanted for step in steps}))
        if count > self.most:
            one = f"; write {text}-{text} for step {text}" if text.isdecimal() else ""
            self.fail(f"expected at most {self.most} steps, found {count}{one}.", param, ctx)
        return chosen or count


def run_options() -> CommandOptions:
    """The option of `llmperf run`."""
    steps = "N steps after the measured ones, or of steps such as 40-42."
    option = click.Option(
        ["--trace"], metavar="N|STEPS", type=Steps(), default=0, help=f"Keep a Chrome trace of {steps}"
    )
    return CommandOptions(options=[option], prepare=prepare)


def prepare(called: CalledRun) -> None:
    """Have the plans of the run trace the chosen steps."""
    if chosen := called.values["trace"]:
        called.change_plan(lambda planned: traced(planned, chosen))


def traced(planned: PlannedRun, chosen: int | Sequence[int]) -> Plan:
    """The plan with the steps of which a trace is kept; UserError if a profiler would disturb what is measured."""
    plan = planned.plan
    check_profiler(planned, "--trace")
    if isinstance(chosen, int):
        chosen = range(plan.steps + 2, plan.steps + 2 + chosen)
    elif chosen[0] <= plan.steps:
        expected = f"expected steps from {plan.steps + 1}, after the measured ones, found step {chosen[0]}"
        one_range = len(chosen) == chosen[-1] + 1 - chosen[0]
        text = f"{chosen[0]}-{chosen[-1]}" if one_range else ",".join(map(str, chosen))
        other = f"llmperf profile {plan.spec.case} --steps {text} traces them without a result"
        raise UserError(f"--trace: {expected}, and a profiler would disturb the measurement; {other}")
    return replace(plan, traced_steps=tuple(chosen), recorders=tuple(sorted({*plan.recorders, "trace"})))


def check_profiler(planned: PlannedRun, where: str) -> None:
    """UserError if the framework of a planned run has no profiler."""
    if planned.plan.worker.script is not None or not planned.answers(HOOK):
        name = planned.plan.spec.tuning.framework
        raise UserError(f"{where}: framework {name} has no profiler here; expected a framework that has one")
