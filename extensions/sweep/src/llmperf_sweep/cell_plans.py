"""The cells of a matrix as runs: planned beforehand, then started one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from llmperf.errors import UserError
from llmperf.types import Plan, Result, RunChoice, RunSeries


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCell:
    """A cell as planned, before it runs."""

    cost: float
    """FLOPs of one run on each of its devices; infinite if it is refused."""
    problems: tuple[str, ...] = ()
    """Reasons why it cannot run; empty if it can."""
    expected_step_seconds: float | None = None
    """Estimated time of a step; None without rates of the device."""
    expected_peak_bytes: int | None = None
    """Estimated peak of the rank that needs most."""


def planned_cell(series: RunSeries, choice: RunChoice) -> PlannedCell:
    """Plan a cell, without its peak; a choice that is not valid is a cell with a problem too."""
    try:
        planned = series.plan(choice)
    except UserError as error:
        return PlannedCell(cost=float("inf"), problems=(str(error),))
    plan = planned.plan
    if planned.problems or plan is None:
        lines = tuple(f"{problem.where}: {problem.message} [{problem.code}]" for problem in planned.problems)
        return PlannedCell(cost=float("inf"), problems=lines)
    return PlannedCell(
        cost=_cost(plan),
        expected_step_seconds=plan.expected_step_seconds,
        expected_peak_bytes=max((memory.peak_bytes for memory in plan.memory), default=None),
    )


def _cost(plan: Plan) -> float:
    """FLOPs of a run on each device: FLOPs per token x tokens of all steps / devices."""
    tokens = plan.batch.tokens_per_step * plan.spec.contract.steps
    return plan.flops.of("nominal").flops * tokens / (plan.layout.world_size * plan.device_share)


def plan_cells(
    series: RunSeries, choices: Mapping[str, RunChoice], show: Callable[[int], None] = lambda count: None
) -> dict[str, PlannedCell]:
    """Plan all cells; `show` gets the number of those that are done. Cells that use the same nodes come in a row."""
    planned: dict[str, PlannedCell] = {}

    def nodes_asked(identity: str) -> tuple[str, str, str]:
        choice = choices[identity]
        return choice.vendor or "", str(choice.settings.get("tuning.nodes", "")), str(choice.devices)

    for identity in sorted(choices, key=nodes_asked):
        planned[identity] = planned_cell(series, choices[identity])
        show(len(planned))
    return planned


class MeasuredRuns:
    """Prepares, starts and recovers the runs of a matrix."""

    def __init__(self, series: RunSeries, choices: Mapping[str, RunChoice]) -> None:
        """`choices` has the run of each cell by its identity."""
        self._series = series
        self._choices = choices

    def plan(self, cell: str) -> Plan:
        """The plan of the next run of a cell; UserError if it cannot run."""
        return self._series.prepare(self._choices[cell])

    def run(self, plan: Plan, folder: Path) -> Result:
        """Run a plan below a folder; the checked result."""
        return self._series.run(plan, folder)

    def recover(self, folder: Path) -> Result | None:
        """The checked result of a run whose controller was killed; None for a run that was cut off."""
        return self._series.recover(folder)
