"""`llmperf run --matrix`: the whole of a matrix, from its file to the table of its cells."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click
from llmperf import print_json, print_table
from llmperf.errors import Interrupted, Refused, Terminated, UserError
from llmperf.reporting import PERCENT, THROUGHPUT, UNKNOWN, Column, duration, printable, rounded
from llmperf.types import CalledRun, RunSeries
from llmperf.types.units import Count

from llmperf_sweep.matrix_file import AXES, Cell, Matrix
from llmperf_sweep.matrix_folder import CellRun, MatrixFolder, checked, document_of, made_for_matrix, read_run
from llmperf_sweep.matrix_runs import MatrixRun, PlannedCell, Whole, plan_cells, runs_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSummary:
    """One cell with the outcome of its runs."""

    cell: Cell
    """The cell that was run."""
    runs: Count
    """Runs of it that are to be made here."""
    throughputs: tuple[float, ...]
    """token/p/s of the complete runs, as far as known."""
    complete: Count
    """Complete runs."""
    error_findings: Count
    """Findings of complete runs that are errors."""
    folders: tuple[str, ...]
    """Run folders of the complete runs, below `runs/`."""
    failures: tuple[str, ...] = ()
    """Reasons why the last attempt failed, of each run without a complete result."""
    refusals: tuple[str, ...] = ()
    """Reasons why the cell cannot run here."""
    expected_step_seconds: float | None = None
    """Estimated time of a step; None without rates of the device."""
    expected_peak_bytes: int | None = None
    """Estimated peak of the rank that needs most."""

    @property
    def status(self) -> str:
        """One word, or the number of complete runs."""
        if self.complete == self.runs:
            return "complete"
        if self.refusals:
            return "refused"
        return "failed" if self.failures else "left"

    @property
    def spread(self) -> float | None:
        """(maximum - minimum) / median of the throughputs; None for less than two."""
        if len(self.throughputs) < 2 or not median(self.throughputs):
            return None
        return (max(self.throughputs) - min(self.throughputs)) / median(self.throughputs)

    def document(self) -> dict[str, Any]:
        """Plain values for JSON."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        middle = median(self.throughputs) if self.throughputs else None
        figures = {"status": self.status, "tokens_per_second_per_device": middle, "spread": self.spread}
        return {"identity": self.cell.identity, **values, **figures}


def varying(cells: Sequence[Cell]) -> list[str]:
    """The axes on which the cells differ: keys of AXES and paths of settings."""
    keys = [*AXES, *sorted({path for cell in cells for path in cell.settings})]
    return [key for key in keys if any(cell.value(key) != cells[0].value(key) for cell in cells[1:])]


def label(cell: Cell, keys: Sequence[str]) -> str:
    """Such as `default zero micro_batch=4`: the values of a cell on the given axes."""
    words = [cell.case] if "case" in keys or not keys else []
    for key in keys:
        value = cell.value(key)
        if key != "case" and value is not None:
            words.append(str(value) if key in ("vendor", "framework") else f"{key.rpartition('.')[2]}={_shown(value)}")
    return printable(" ".join(words))


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def print_cells(summaries: Sequence[CellSummary]) -> None:
    """Print a row for each cell, and why some have no result; cells with the same reasons share a line."""
    keys = varying([summary.cell for summary in summaries])
    rows = []
    reasons: dict[tuple[str, str], list[str]] = {}
    for summary in summaries:
        values = [summary.cell.value(key) for key in keys or ["case"]]
        middle, errors = median(summary.throughputs) if summary.throughputs else None, summary.error_findings
        rows.append([
            *(UNKNOWN if value is None else printable(_shown(value)) for value in values),
            f"{summary.complete}/{summary.runs}",
            rounded(middle, THROUGHPUT),
            UNKNOWN if summary.spread is None else rounded(summary.spread, PERCENT),
            f"invalid: {errors:,} error{'s' * (errors != 1)}" if errors else summary.status,
        ])  # fmt: skip
        for kind, lines in (("failed", summary.failures), ("refused", summary.refusals)):
            for line in dict.fromkeys(lines):
                reasons.setdefault((kind, line), []).append(label(summary.cell, keys))
    columns = [
        *(Column(title=key.rpartition(".")[2], importance=3, wraps=16) for key in keys or ["case"]),
        Column(title="runs", importance=4, right=True),
        Column(title="token/p/s", importance=1, right=True),
        Column(title="spread", importance=5, right=True),
        Column(title="status", importance=2),
    ]
    print_table(columns, rows)
    if reasons:
        click.echo()
    for (kind, line), names in reasons.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        text = printable(f"{kind}: {'; '.join(names[:3])}{more}: {line}", 1000)
        click.echo(click.style(text, fg={"failed": "red", "refused": "yellow"}[kind]))


Show = Callable[[Path, Sequence[CellSummary], bool], dict[str, Any]]
"""Shows the outcome of all cells in a folder, unless the third argument is True; returns what JSON has besides."""
IN_THE_FILE = {
    "case": "cases",
    "vendor": "vendors",
    "framework": "frameworks",
    "devices": "devices",
    "settings": "[settings]",
    "repeat": "repeats",
}
"""Options of `llmperf run` for which a matrix file has keys."""


def run_matrix(called: CalledRun, series: RunSeries, matrix: Matrix) -> int:
    """Run a matrix file and print its cells; UserError for an option whose values belong into the file."""
    given = next((name for name in IN_THE_FILE if called.given(name)), None)
    if given is not None:
        option = "CASE" if given == "case" else "--set" if given == "settings" else f"--{given}"
        raise UserError(f"{option}: expected in the matrix file, as {IN_THE_FILE[given]!r}")

    def show(_: Path, summaries: Sequence[CellSummary], quiet: bool) -> dict[str, Any]:
        if not quiet:
            print_cells(summaries)
        return {}

    return run_cells(called, series, matrix, show)


def run_cells(called: CalledRun, series: RunSeries, matrix: Matrix, show: Show) -> int:
    """Run the cells of a matrix in the folder of `--out`, or `runs/NAME`, and `show` their outcome; the exit code."""
    part, quiet, launcher = called.values["part"], called.values["as_json"], called.values["launcher"]
    out: Path = called.values["out"] if called.given("out") else Path("runs") / matrix.name
    goes_on = called.values["resume"] or part
    if not called.values["dry_run"] and made_for_matrix(out) and not goes_on:
        raise UserError(f"{out}: there is a matrix already: continue it with --resume, or choose another --out")
    choices = {cell.identity: cell.choice(matrix.folder) for cell in matrix.cells}
    planned = plan_cells(series, choices, partial(_say_planned, len(choices)))
    if all(cell.problems for cell in planned.values()):
        lines = dict.fromkeys(line for cell in planned.values() for line in cell.problems)
        raise Refused(f"matrix {matrix.name}: none of its {len(planned)} cells can run here:", lines)
    if called.values["dry_run"]:
        names = runs_of(matrix, part)
        runs = [CellRun(cell=cell, repeat=repeat) for cell, repeat in names]
        if goes_on and made_for_matrix(out):
            checked(out, document_of(matrix, launcher))
            runs = [read_run(out, cell, repeat) for cell, repeat in names]
        _show_plan(matrix, runs, planned, quiet)
        return 0
    with closing(MatrixFolder(out, part)) as folder:
        folder.open(document_of(matrix, launcher))
        try:
            work = MatrixRun(folder, matrix, planned, series, choices)
            begun = work.whole()
            if begun.complete:
                click.echo(f"{begun.complete} of {begun.runs} runs are complete already", err=True)
            finished = work.run_all(partial(_say_ended, matrix), partial(_say_begun, series, matrix))
        except (Interrupted, Terminated):
            _say_how_to_continue()
            return 130
        summaries = summarised(matrix, list(work.states.values()), planned)
        further = show(folder.path, summaries, quiet)
        if quiet:
            document = {"name": matrix.name, "folder": str(folder.path), "whole": work.whole()}
            print_json({**document, "cells": [summary.document() for summary in summaries], **further})
        else:
            click.echo(f"\nruns: {folder.path / 'runs'}")
            if any(summary.error_findings for summary in summaries):
                click.echo(f"findings: llmperf validate {folder.path / 'runs'}")
    if not finished:
        _say_how_to_continue()
        return 130
    bad = any(summary.status != "complete" or summary.error_findings for summary in summaries)
    return 1 if bad else 0


def _say_planned(cells: int, count: int) -> None:
    """A line on a terminal that counts the cells which are planned, as each takes some 0.1 s."""
    if sys.stderr.isatty():
        click.echo(f"\rplanning cell {count} of {cells}", nl=count == cells, err=True)


def _say_how_to_continue() -> None:
    words = [word for word in sys.argv[1:] if word != "--resume"]
    click.echo(f"continue with: {shlex.join(['llmperf', *words, '--resume'])}", err=True)


def _say_begun(series: RunSeries, matrix: Matrix, run: CellRun, whole: Whole) -> None:
    """Tell the progress line which run it is; without a terminal, one line says that it begins."""
    number = whole.complete + whole.failed + 1
    series.begin(number, whole.runs, whole.seconds_left)
    if not sys.stderr.isatty():
        click.echo(f"run {number} of {whole.runs}: {_named(matrix, run)}: begins", err=True)


def _named(matrix: Matrix, run: CellRun) -> str:
    """Such as `devices=1 micro_batch=2, run 2 of 2`."""
    cell = next(cell for cell in matrix.cells if cell.identity == run.cell)
    repeat = f", run {run.repeat} of {matrix.repeats}" if matrix.repeats > 1 else ""
    return f"{label(cell, varying(matrix.cells))}{repeat}"


def _say_ended(matrix: Matrix, run: CellRun, whole: Whole) -> None:
    """One line when an attempt has ended: how it ended, and how far the whole is."""
    attempt = run.attempts[-1]
    figure = f"{rounded(attempt.tokens_per_second_per_device, THROUGHPUT)} token/p/s"
    ended = figure if attempt.state == "complete" else f"{click.style('failed', fg='red')}: {printable(attempt.reason)}"
    left = "" if whole.seconds_left is None else f"{duration(whole.seconds_left)} left"
    counts = {"failed": whole.failed, "refused": whole.refused}
    rest = "; ".join(filter(None, (", ".join(f"{count:,} {name}" for name, count in counts.items() if count), left)))
    place = f"[{whole.complete + whole.failed}/{whole.runs}]"
    click.echo(f"{place} {_named(matrix, run)}: {ended} ({rest})", err=True)


def summarised(matrix: Matrix, all_runs: Sequence[CellRun], planned: dict[str, PlannedCell]) -> list[CellSummary]:
    """Each cell of which this controller has runs, with their outcome."""
    summaries = []
    for cell in matrix.cells:
        runs, plan = [run for run in all_runs if run.cell == cell.identity], planned[cell.identity]
        complete = [attempt for run in runs if (attempt := run.complete) is not None]
        others = [run.attempts[-1] for run in runs if run.complete is None and run.attempts]
        figures = [attempt.tokens_per_second_per_device for attempt in complete]
        if runs:
            summaries.append(
                CellSummary(
                    cell=cell,
                    runs=len(runs),
                    throughputs=tuple(figure for figure in figures if figure is not None),
                    complete=len(complete),
                    error_findings=sum(attempt.error_findings for attempt in complete),
                    folders=tuple(attempt.run for attempt in complete if attempt.run is not None),
                    failures=tuple(attempt.reason for attempt in others if attempt.state == "failed"),
                    refusals=plan.problems if len(complete) < len(runs) else (),
                    expected_step_seconds=plan.expected_step_seconds,
                    expected_peak_bytes=plan.expected_peak_bytes,
                )
            )
    return summaries


def _show_plan(matrix: Matrix, runs: Sequence[CellRun], planned: dict[str, PlannedCell], quiet: bool) -> None:
    """Print which cells would run, and how many of their runs are complete already."""
    summaries = summarised(matrix, runs, planned)
    if quiet:
        print_json({"name": matrix.name, "cells": [summary.document() for summary in summaries]})
        return
    print_cells(summaries)
    refused = [summary for summary in summaries if summary.status == "refused"]
    total = sum(summary.runs for summary in summaries if summary not in refused)
    complete = sum(run.complete is not None for run in runs)
    already = f"; {complete} complete already" if complete else ""
    click.echo(f"\n{len(summaries) - len(refused)} cells, {total} runs{already}; {len(refused)} cells refused")
