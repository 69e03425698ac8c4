"""`llmperf run --matrix`: the whole of a matrix, from its file to the table of its cells."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llmperf.cli.colour import painted
from llmperf.cli.idle_line import ready_by
from llmperf.cli.output import print_json, print_table

if TYPE_CHECKING:
    from llmperf.cases.matrix import Cell, Matrix
    from llmperf.planning.states import Planned, Request
    from llmperf.reporting.matrix import CellSummary
    from llmperf.running.matrix import Whole
    from llmperf.running.matrix_cells import PlannedCell
    from llmperf.running.matrix_folder import CellRun, MatrixFolder

Show = Callable[[Path, Sequence["CellSummary"], bool], dict[str, Any]]
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


def run_matrix(ctx: click.Context, path: Path, common: Request, options: dict[str, Any]) -> int:
    """Run a matrix file; the exit code."""
    from llmperf.cases.matrix import read_matrix
    from llmperf.errors import UserError

    given = next((name for name in IN_THE_FILE if is_given(ctx, name)), None)
    if given is not None:
        option = "CASE" if given == "case" else "--set" if given == "settings" else f"--{given}"
        raise UserError(f"{option}: expected in the matrix file, as {IN_THE_FILE[given]!r}")
    matrix = read_matrix(path)
    return run_cells(matrix, folder_of(ctx, matrix), common, options, show_table)


def folder_of(ctx: click.Context, matrix: Matrix) -> Path:
    """The folder that the user named with `--out`, otherwise `runs/` and the name of the matrix."""
    return ctx.params["out"] if is_given(ctx, "out") else Path("runs") / matrix.name


def is_given(ctx: click.Context, name: str) -> bool:
    """Whether an argument or option is on the command line."""
    return ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE


def run_cells(matrix: Matrix, out: Path, common: Request, options: dict[str, Any], show: Show) -> int:
    """Run the cells of a matrix in a folder, and `show` their outcome; the exit code."""
    from llmperf.errors import Refused, UserError
    from llmperf.running.matrix import runs_of
    from llmperf.running.matrix_cells import request_of
    from llmperf.running.matrix_folder import CellRun, checked, document_of, made_for_matrix, read_run, working_in

    part, quiet, dry_run = options["part"], options["as_json"], options["dry_run"]
    if not dry_run and made_for_matrix(out) and not (options["resume"] or part):
        raise UserError(f"{out}: there is a matrix already: continue it with --resume, or choose another --out")
    requests = {cell.identity: request_of(cell, common, matrix.folder) for cell in matrix.cells}
    planned = _planned(requests)
    if all(cell.problems for cell in planned.values()):
        lines = dict.fromkeys(line for cell in planned.values() for line in cell.problems)
        raise Refused(f"matrix {matrix.name}: none of its {len(planned)} cells can run here:", lines)
    if dry_run:
        names = runs_of(matrix, part)
        runs = [CellRun(cell=cell, repeat=repeat) for cell, repeat in names]
        if (options["resume"] or part) and made_for_matrix(out):
            checked(out, document_of(matrix, common.launcher))
            runs = [read_run(out, cell, repeat) for cell, repeat in names]
        _show_plan(matrix, runs, planned, quiet)
        return 0
    with working_in(out, part) as folder:
        folder.open(document_of(matrix, common.launcher))
        ready = ready_by(options["wait_until_idle"])
        return _run(matrix, folder, requests, planned, quiet, show, ready)


def _planned(requests: dict[str, Request]) -> dict[str, PlannedCell]:
    """The plan of each cell; a line that counts them on a terminal, as each takes some 0.1 s."""
    from llmperf.running.matrix_cells import plan_cells

    live = sys.stderr.isatty()

    def show(count: int) -> None:
        if live:
            click.echo(f"\rplanning cell {count} of {len(requests)}", nl=count == len(requests), err=True)

    return plan_cells(requests.items(), show)


def _run(
    matrix: Matrix,
    folder: MatrixFolder,
    requests: dict[str, Request],
    planned: dict[str, PlannedCell],
    quiet: bool,
    show: Show,
    ready: Callable[[Planned], None] | None,
) -> int:
    from llmperf.errors import Interrupted, Terminated
    from llmperf.running.matrix import MatrixRun
    from llmperf.running.matrix_cells import MeasuredRuns

    try:
        measured = MeasuredRuns(requests, lambda line: click.echo(f"warning: {line}", err=True), ready)
        work = MatrixRun(folder, matrix, planned, measured)
        begun = work.whole()
        if begun.complete:
            click.echo(f"{begun.complete} of {begun.runs} runs are complete already", err=True)
        finished = work.run_all(partial(_say_ended, matrix), partial(_say_begun, matrix))
    except (Interrupted, Terminated):
        _say_how_to_continue()
        return 130
    summaries = summarised(matrix, list(work.states.values()), planned)
    further = show(folder.path, summaries, quiet)
    if quiet:
        print_json(_document(matrix, folder.path, work.whole(), summaries) | further)
    else:
        click.echo(f"\nruns: {folder.path / 'runs'}")
        if any(summary.error_findings for summary in summaries):
            click.echo(f"findings: llmperf validate {folder.path / 'runs'}")
    if not finished:
        _say_how_to_continue()
        return 130
    bad = any(summary.status != "complete" or summary.error_findings for summary in summaries)
    return 1 if bad else 0


def _say_how_to_continue() -> None:
    words = [word for word in sys.argv[1:] if word != "--resume"]
    click.echo(f"continue with: {shlex.join(['llmperf', *words, '--resume'])}", err=True)


def _say_begun(matrix: Matrix, run: CellRun, whole: Whole) -> None:
    """Tell the progress line which run it is; without a terminal, one line says that it begins."""
    from llmperf.cli.progress_line import begin_run

    number = whole.complete + whole.failed + 1
    begin_run(number, whole.runs, whole.seconds_left)
    if not sys.stderr.isatty():
        click.echo(f"run {number} of {whole.runs}: {_named(matrix, run)}: begins", err=True)


def _named(matrix: Matrix, run: CellRun) -> str:
    """Such as `devices=1 micro_batch=2, run 2 of 2`."""
    from llmperf.reporting.matrix import label, varying

    cell = next(cell for cell in matrix.cells if cell.identity == run.cell)
    repeat = f", run {run.repeat} of {matrix.repeats}" if matrix.repeats > 1 else ""
    return f"{label(cell, varying(matrix.cells))}{repeat}"


def _say_ended(matrix: Matrix, run: CellRun, whole: Whole) -> None:
    """One line when an attempt has ended: how it ended, and how far the whole is."""
    from llmperf.cli.progress_line import duration
    from llmperf.reporting.cells import number
    from llmperf.reporting.matrix import count_text
    from llmperf.reporting.safe_text import printable

    attempt = run.attempts[-1]
    figure = f"{number(attempt.tokens_per_second_per_device)} token/p/s"
    ended = figure if attempt.state == "complete" else f"{painted('failed')}: {printable(attempt.reason)}"
    left = "" if whole.seconds_left is None else f"{duration(whole.seconds_left)} left"
    counts = count_text({"failed": whole.failed, "refused": whole.refused})
    rest = "; ".join(part for part in (counts, left) if part)
    place = f"[{whole.complete + whole.failed}/{whole.runs}]"
    click.echo(f"{place} {_named(matrix, run)}: {ended} ({rest})", err=True)


def summarised(matrix: Matrix, all_runs: Sequence[CellRun], planned: dict[str, PlannedCell]) -> list[CellSummary]:
    """Each cell of which this controller has runs, with their outcome."""
    summaries = []
    for cell in matrix.cells:
        runs = [run for run in all_runs if run.cell == cell.identity]
        if runs:
            summaries.append(_summary(cell, runs, planned[cell.identity]))
    return summaries


def _summary(cell: Cell, runs: Sequence[CellRun], planned: PlannedCell) -> CellSummary:
    from llmperf.reporting.matrix import CellSummary

    complete = [attempt for run in runs if (attempt := run.complete) is not None]
    others = [run.attempts[-1] for run in runs if run.complete is None and run.attempts]
    figures = [attempt.tokens_per_second_per_device for attempt in complete]
    return CellSummary(
        cell=cell,
        runs=len(runs),
        throughputs=tuple(figure for figure in figures if figure is not None),
        complete=len(complete),
        error_findings=sum(attempt.error_findings for attempt in complete),
        folders=tuple(attempt.run for attempt in complete if attempt.run is not None),
        failures=tuple(attempt.reason for attempt in others if attempt.state == "failed"),
        refusals=planned.problems if len(complete) < len(runs) else (),
        expected_step_seconds=planned.expected_step_seconds,
        expected_peak_bytes=planned.expected_peak_bytes,
    )


def show_table(_: Path, summaries: Sequence[CellSummary], quiet: bool) -> dict[str, Any]:
    """Print the cells, and why some have no result, unless `quiet`; nothing further for JSON."""
    if not quiet:
        print_cells(summaries)
    return {}


def print_cells(summaries: Sequence[CellSummary]) -> None:
    """Print the cells, and why some have no result."""
    from llmperf.reporting.matrix import columns, problem_lines, rows, varying

    keys = varying([summary.cell for summary in summaries])
    print_table(columns(keys), rows(summaries, keys))
    if lines := list(problem_lines(summaries, keys)):
        click.echo("\n" + "\n".join(map(painted, lines)))


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


def _document(matrix: Matrix, folder: Path, whole: Whole, summaries: Sequence[CellSummary]) -> dict[str, Any]:
    cells = [summary.document() for summary in summaries]
    return {"name": matrix.name, "folder": str(folder), "whole": whole, "cells": cells}
