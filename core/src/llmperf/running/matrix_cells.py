"""The cells of a matrix as runs: planned beforehand, started, and recovered after a controller was killed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from llmperf.accounting.precisions import precision_recipe
from llmperf.cases.matrix import Cell
from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.files.text import secret_values
from llmperf.measuring.processes import left_of_run
from llmperf.planning.build import plan_only, plan_run
from llmperf.planning.peak import with_peak
from llmperf.planning.states import Outcome, Planned, Request
from llmperf.plugins.loading import load_for
from llmperf.results.build import build_result
from llmperf.runfolder import filenames
from llmperf.runfolder.create import load_plan
from llmperf.runfolder.endings import read_ending
from llmperf.running.measure import check, measure_in, startable
from llmperf.types.devices import Dtype
from llmperf.types.result import Result
from llmperf.validation.run_folder import recorded_findings

LEFT_SECONDS = 20.0
"""For the processes of a run whose controller was killed to end, before another run begins on this machine."""


def request_of(cell: Cell, common: Request, folder: Path) -> Request:
    """The request for one run of a cell; `common` has what is the same for all cells."""
    return replace(
        common,
        case=cell.case_in(folder),
        vendor=cell.vendor or common.vendor,
        framework=cell.framework,
        devices=cell.devices,
        settings=cell.options(folder),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCell:
    """What is known of a cell before it runs."""

    cost: float
    """FLOPs of one run on each of its devices; infinite if it is refused."""
    problems: tuple[str, ...] = ()
    """Why it cannot run; empty if it can."""
    expected_step_seconds: float | None = None
    """Of a step, by the plan's estimate; None without rates of the device."""
    expected_peak_bytes: int | None = None
    """Of the rank that needs most, by the plan's estimate."""


def planned_cell(request: Request) -> PlannedCell:
    """Plan a cell, without its peak; a request that is not valid is a cell with a problem too."""
    try:
        outcome = plan_only(replace(request, skip_peak_and_env=True))
    except UserError as error:
        return PlannedCell(cost=float("inf"), problems=(str(error),))
    problems = tuple(f"{problem.where}: {problem.message} [{problem.code}]" for problem in outcome.problems)
    plan = outcome.plan if isinstance(outcome, Planned) else None
    return PlannedCell(
        cost=_cost(outcome),
        problems=problems,
        expected_step_seconds=None if plan is None else plan.expected_step_seconds,
        expected_peak_bytes=None if plan is None else max((memory.peak_bytes for memory in plan.memory), default=None),
    )


def _cost(outcome: Outcome) -> float:
    """FLOPs of a run on each device: FLOPs per token x tokens of all steps / devices."""
    if not isinstance(outcome, Planned):
        return float("inf")
    plan = outcome.plan
    tokens = plan.batch.tokens_per_step * plan.spec.contract.steps
    return plan.flops.of("nominal").flops * tokens / (plan.layout.world_size * plan.device_share)


class MeasuredRuns:
    """Plans, starts and recovers the runs of a matrix."""

    def __init__(
        self,
        requests: dict[str, Request],
        warn: Callable[[str], None],
        ready: Callable[[Planned], None] | None = None,
    ) -> None:
        """`requests` has the request of each cell by its identity; `warn` gets a line for each disturbance. `ready` may
        wait before each run until the machine is.
        """
        self._requests = requests
        self._warn = warn
        self._ready = ready
        self._refused_peaks: dict[tuple[str, Dtype], str] = {}

    def plan(self, cell: str) -> Planned:
        """The plan of the next run of a cell; UserError if it cannot run.

        A peak that could not be found, such as on a busy host, is not asked for again by later runs.
        """
        refused = tuple((vendor, dtype, reason) for (vendor, dtype), reason in self._refused_peaks.items())
        planned = startable(plan_run(replace(self._requests[cell], refused_peaks=refused)))
        key = planned.machine.vendor, precision_recipe(planned.spec.contract.precision).products
        if self._ready is not None:
            self._ready(planned)
            planned = planned if key in self._refused_peaks else with_peak(planned)
        if planned.plan.peak_problem is not None and not planned.spec.tuning.emulate_precision:
            self._refused_peaks.setdefault(key, planned.plan.peak_problem)
        return planned

    def run(self, planned: Planned, folder: Path) -> Result:
        """Run a plan in a new folder; the checked result. After a failure, the launcher is asked for nodes again."""
        result = None
        try:
            result = measure_in(folder, planned, self._warn, lambda _, __: None)
        finally:
            nodes = planned.resolved.request.nodes_in_use
            if nodes is not None and (result is None or result.status != "complete"):
                nodes.close()
        return result

    def recover(self, folder: Path) -> Result | None:
        """The checked result of a run whose controller was killed, if the run itself had come to its end by then.

        None for a run that was cut off. Returns after the processes of that run have ended.
        """
        self._wait_for_processes(folder.name)
        try:
            if not (folder / filenames.RESULT).exists():
                ending = read_ending(folder) if folder.exists() else None
                if ending is None or ending.cause not in ("ended", "hung"):
                    return None
                json_files.save(folder / filenames.RESULT, build_result(folder, secret_values(dict(os.environ))))
            result = json_files.load(folder / filenames.RESULT, Result)
            if result.status == "aborted":
                return None
            plan = load_plan(folder)
            plugins = load_for(plan.vendor, plan.spec.tuning.framework)
            return check(result, folder, plugins, recorded_findings(folder))
        except UserError as error:
            self._warn(f"{folder}: cannot be used: {error}")
            return None

    def _wait_for_processes(self, run: str) -> None:
        deadline = time.monotonic() + LEFT_SECONDS
        while left_of_run(run):
            if time.monotonic() > deadline:
                self._warn(f"processes of run {run}, whose controller was killed, still run on this machine")
                return
            time.sleep(0.1)


def plan_cells(
    requests: Iterable[tuple[str, Request]], show: Callable[[int], None] = lambda count: None
) -> dict[str, PlannedCell]:
    """Plan all cells; `show` gets the number of those that are done. Cells that use the same nodes come in a row."""
    planned: dict[str, PlannedCell] = {}

    def nodes_asked(item: tuple[str, Request]) -> tuple[str, ...]:
        _, request = item
        nodes = [setting for setting in request.settings if setting.startswith("tuning.nodes=")]
        return (request.vendor or "", *nodes, str(request.devices))

    for identity, request in sorted(requests, key=nodes_asked):
        planned[identity] = planned_cell(request)
        show(len(planned))
    return planned
