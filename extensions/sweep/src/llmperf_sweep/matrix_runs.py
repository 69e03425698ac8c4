"""Runs the cells of a matrix: in which order, what is repeated after a failure, and what continues after an end."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from llmperf import utc_time
from llmperf.errors import UserError
from llmperf.reporting import failure_text
from llmperf.types import Result, RunChoice, RunSeries

from llmperf_sweep.matrix_file import Matrix
from llmperf_sweep.matrix_folder import RUNS, Attempt, CellRun, MatrixFolder, read_run


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


def plan_cells(
    series: RunSeries, choices: Mapping[str, RunChoice], show: Callable[[int], None]
) -> dict[str, PlannedCell]:
    """Plan all cells, without their peaks, in an order that keeps nodes; an invalid choice is a cell with a problem."""

    def nodes_asked(identity: str) -> tuple[str, str, str]:
        choice = choices[identity]
        return choice.vendor or "", str(choice.settings.get("tuning.nodes", "")), str(choice.devices)

    cells: dict[str, PlannedCell] = {}
    for identity in sorted(choices, key=nodes_asked):
        try:
            planned = series.plan(choices[identity])
        except UserError as error:
            cells[identity] = PlannedCell(cost=float("inf"), problems=(str(error),))
        else:
            plan = planned.plan
            if planned.problems or plan is None:
                lines = tuple(f"{problem.where}: {problem.message} [{problem.code}]" for problem in planned.problems)
                cells[identity] = PlannedCell(cost=float("inf"), problems=lines)
            else:
                tokens = plan.batch.tokens_per_step * plan.spec.contract.steps
                devices = plan.layout.world_size * plan.device_share
                cells[identity] = PlannedCell(
                    cost=plan.flops.of("nominal").flops * tokens / devices,
                    expected_step_seconds=plan.expected_step_seconds,
                    expected_peak_bytes=max((memory.peak_bytes for memory in plan.memory), default=None),
                )
        show(len(cells))
    return cells


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """How far a matrix is, or the part of it that this controller runs."""

    runs: int
    """All runs, without refused ones."""
    complete: int
    """Runs that have a complete result."""
    failed: int
    """Runs that failed, with no attempt left."""
    refused: int
    """Further runs, of cells that cannot run here."""
    seconds_left: float | None
    """Estimate by the runs that ended; None before the first one."""


class MatrixRun:
    """The runs of a matrix, or of a part of it, in its folder.

    The state of a run is written before it begins and after it ends. A run that ended is never repeated; one cut
    off is set aside and run again, after those that were never begun.
    """

    def __init__(
        self,
        folder: MatrixFolder,
        matrix: Matrix,
        planned: Mapping[str, PlannedCell],
        series: RunSeries,
        choices: Mapping[str, RunChoice],
    ) -> None:
        """Read the states of all runs, and settle those that were running when their controller ended."""
        self._folder = folder
        self._matrix = matrix
        self._planned = planned
        self._series = series
        self._choices = choices
        self._seconds: dict[str, float] = {}
        self._place = {cell.identity: place for place, cell in enumerate(matrix.cells)}
        names = runs_of(matrix, folder.part)
        self.states = {(cell, repeat): self._settled(read_run(folder.path, cell, repeat)) for cell, repeat in names}
        """Each run by the identity of its cell and its number."""

    def _settled(self, run: CellRun) -> CellRun:
        last = run.attempts[-1] if run.attempts else None
        if last is None or last.state != "running" or last.run is None:
            return run
        result = self._series.recover(self._folder.path / RUNS / last.run)
        ended = replace(last, state="unfinished") if result is None else _ended(last, result, None)
        if result is None:
            self._folder.set_aside(last.run)
        run = replace(run, attempts=(*run.attempts[:-1], ended))
        self._folder.write(run)
        return run

    def next(self) -> tuple[str, int] | None:
        """The run to begin; None if nothing is left to do."""
        left = [name for name, run in self.states.items() if self._is_left(run)]
        return min(left, key=self._order, default=None)

    def _is_left(self, run: CellRun) -> bool:
        refused = bool(self._planned[run.cell].problems)
        return run.complete is None and not refused and run.failures <= self._matrix.retries

    def _order(self, name: tuple[str, int]) -> tuple[float | str, ...]:
        """First what was attempted least often, then first repeats, then small cells."""
        cell, repeat = name
        first = (len(self.states[name].attempts), repeat)
        if self._matrix.order == "shuffled":
            return (*first, hashlib.sha256(f"{self._matrix.name} {cell} {repeat}".encode()).hexdigest())
        cost = self._planned[cell].cost if self._matrix.order == "cheapest" else 0.0
        return (*first, cost, self._place[cell])

    def run_all(
        self, show: Callable[[CellRun, Whole], None], begin: Callable[[CellRun, Whole], None] = lambda _, __: None
    ) -> bool:
        """Run what is left; False if a run was interrupted. `begin` and `show` are called around each attempt."""
        while (name := self.next()) is not None:
            begin(self.states[name], self.whole())
            attempt = self._attempt(name)
            if attempt.state == "unfinished":
                return False
            show(self.states[name], self.whole())
        return True

    def _attempt(self, name: tuple[str, int]) -> Attempt:
        cell, _ = name
        run, began = self.states[name], time.monotonic()
        try:
            plan = self._series.prepare(self._choices[cell])
        except UserError as error:
            return self._save(run, Attempt(run=None, began=utc_time(), state="failed", reason=str(error)))
        attempt = Attempt(run=plan.run_id, began=utc_time(), state="running")
        self._save(run, attempt)
        try:
            result = self._series.run(plan, self._folder.path / RUNS)
        except UserError as error:
            return self._save(run, replace(attempt, state="failed", reason=str(error)))
        seconds = time.monotonic() - began
        if result.status == "aborted":
            self._folder.set_aside(plan.run_id)
            return self._save(run, replace(attempt, state="unfinished", seconds=seconds))
        if result.status == "complete":
            self._seconds[run.name] = seconds
        return self._save(run, _ended(attempt, result, seconds))

    def _save(self, run: CellRun, attempt: Attempt) -> Attempt:
        """Add an attempt to those that a run had before."""
        run = replace(run, attempts=(*run.attempts, attempt))
        self._folder.write(run)
        self.states[run.cell, run.repeat] = run
        return attempt

    def whole(self) -> Whole:
        """How far all runs of this controller are."""
        runs = list(self.states.values())
        refused = [run for run in runs if run.complete is None and self._planned[run.cell].problems]
        left = [run for run in runs if self._is_left(run)]
        complete = sum(run.complete is not None for run in runs)
        return Whole(
            runs=len(runs) - len(refused),
            complete=complete,
            failed=len(runs) - complete - len(refused) - len(left),
            refused=len(refused),
            seconds_left=self._seconds_left(left),
        )

    def _seconds_left(self, left: Sequence[CellRun]) -> float | None:
        """A run takes as long as the complete runs of its cell took; others by a straight line over their costs."""
        known = [
            (run.cell, run.complete.seconds)
            for run in self.states.values()
            if run.complete is not None and run.complete.seconds is not None
        ]
        if not known:
            return None
        same: dict[str, list[float]] = {}
        for cell, seconds in known:
            same.setdefault(cell, []).append(seconds)
        start, rate = line([(self._planned[cell].cost, seconds) for cell, seconds in known])
        return sum(
            fmean(same[run.cell]) if run.cell in same else start + rate * self._planned[run.cell].cost for run in left
        )


def line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Least squares of seconds over costs: seconds at cost 0 and seconds per cost, neither of them below 0."""
    points = [point for point in points if point[0] < float("inf")] or [(1.0, points[0][1])]
    mean_cost, mean_seconds = fmean(cost for cost, _ in points), fmean(seconds for _, seconds in points)
    spread = sum((cost - mean_cost) ** 2 for cost, _ in points)
    if not spread:
        return 0.0, mean_seconds / mean_cost
    rate = sum((cost - mean_cost) * (seconds - mean_seconds) for cost, seconds in points) / spread
    rate = min(max(rate, 0.0), mean_seconds / mean_cost)
    return mean_seconds - rate * mean_cost, rate


def _ended(attempt: Attempt, result: Result, seconds: float | None) -> Attempt:
    failure = result.failure
    where = "" if failure is None or failure.rank is None else f"rank {failure.rank}: "
    return replace(
        attempt,
        state="complete" if result.status == "complete" else "failed",
        seconds=seconds,
        reason="" if failure is None else f"{where}{failure_text(failure)}",
        error_findings=sum(finding.severity == "error" for finding in result.findings),
        tokens_per_second_per_device=result.metrics.tokens_per_second_per_device,
    )


def runs_of(matrix: Matrix, part: tuple[int, int] | None = None) -> list[tuple[str, int]]:
    """The runs of a matrix, dealt out to parts in turn by identity: identity of the cell, number of the repeat."""
    runs = [(cell.identity, repeat) for repeat in range(1, matrix.repeats + 1) for cell in matrix.cells]
    if part is None:
        return runs
    mixed = sorted(runs, key=lambda run: (run[1], hashlib.sha256(f"{run[0]} {run[1]}".encode()).digest()))
    chosen = set(mixed[part[0] - 1 :: part[1]])
    return [run for run in runs if run in chosen]
