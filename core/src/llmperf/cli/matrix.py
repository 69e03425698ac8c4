"""`llmperf run --matrix`: the whole of a matrix, from its file to the table of its cells."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llmperf.cli.colour import painted
from llmperf.cli.output import print_json, print_table

if TYPE_CHECKING:
    from llmperf.cases.matrix import Cell, Matrix
    from llmperf.planning.states import Request
    from llmperf.reporting.matrix import CellSummary
    from llmperf.running.matrix import MatrixRun, Whole
    from llmperf.running.matrix_cells import PlannedCell
    from llmperf.running.matrix_folder import CellRun, MatrixFolder

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

    given = next((name for name in IN_THE_FILE if _is_given(ctx, name)), None)
    if given is not None:
        option = "CASE" if given == "case" else "--set" if given == "settings" else f"--{given}"
        raise UserError(f"{option}: expected in the matrix file, as {IN_THE_FILE[given]!r}")
    matrix = read_matrix(path)
    out = options["out"] if _is_given(ctx, "out") else Path("runs") / matrix.name
    return run_cells(matrix, out, common, options, f"--matrix {path}")


def _is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE


def run_cells(matrix: Matrix, out: Path, common: Request, options: dict[str, Any], again: str) -> int:
    """Run the cells of a matrix in a folder; the exit code. `again` are the options that name the same matrix."""
    from llmperf.errors import Refused, UserError
    from llmperf.running.matrix_cells import request_of
    from llmperf.running.matrix_folder import document_of, made_for_matrix, working_in

    part, quiet = options["part"], options["as_json"]
    if made_for_matrix(out) and not (options["resume"] or part or options["dry_run"]):
        raise UserError(f"{out}: there is a matrix already: continue it with --resume, or choose another --out")
    requests = {cell.identity: request_of(cell, common, matrix.folder) for cell in matrix.cells}
    planned = _planned(requests)
    if all(cell.problems for cell in planned.values()):
        lines = dict.fromkeys(line for cell in planned.values() for line in cell.problems)
        raise Refused(f"matrix {matrix.name}: none of its {len(planned)} cells can run here:", lines)
    if options["dry_run"]:
        _show_plan(matrix, planned, quiet)
        return 0
    with working_in(out, part) as folder:
        folder.open(document_of(matrix, common.launcher))
        return _run(matrix, folder, requests, planned, quiet, f"llmperf run {again} --out {out} --resume")


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
    again: str,
) -> int:
    from llmperf.errors import Interrupted, Terminated
    from llmperf.running.matrix import MatrixRun
    from llmperf.running.matrix_cells import MeasuredRuns

    again = again if folder.part is None else f"{again} --part {folder.part[0]}/{folder.part[1]}"
    try:
        work = MatrixRun(folder, matrix, planned, MeasuredRuns(requests, _warn))
        begun = work.whole()
        if begun.complete:
            click.echo(f"{begun.complete} of {begun.runs} runs are complete already", err=True)
        finished = work.run_all(lambda run, whole: _say_ended(matrix, run, whole))
    except (Interrupted, Terminated):
        click.echo(f"continue with: {again}", err=True)
        raise
    summaries = summarised(matrix, work, planned)
    if quiet:
        print_json(_document(matrix, folder.path, work.whole(), summaries))
    else:
        show_table(summaries)
        click.echo(f"\nruns: {folder.path / 'runs'}")
        if any(summary.error_findings for summary in summaries):
            click.echo(f"findings: llmperf validate {folder.path / 'runs'}")
    if not finished:
        click.echo(f"continue with: {again}", err=True)
        return 130
    bad = any(summary.status != "complete" or summary.error_findings for summary in summaries)
    return 1 if bad else 0


def _warn(line: str) -> None:
    click.echo(f"warning: {line}", err=True)


def _say_ended(matrix: Matrix, run: CellRun, whole: Whole) -> None:
    """One line when an attempt has ended: how it ended, and how far the whole is."""
    from llmperf.cli.progress_line import duration
    from llmperf.reporting.cells import number, printable
    from llmperf.reporting.matrix import count_text, label, varying

    cell = next(cell for cell in matrix.cells if cell.identity == run.cell)
    attempt = run.attempts[-1]
    figure = f"{number(attempt.tokens_per_second_per_device)} token/p/s"
    ended = figure if attempt.state == "complete" else f"{painted('failed')}: {printable(attempt.reason)}"
    repeat = f", run {run.repeat} of {matrix.repeats}" if matrix.repeats > 1 else ""
    left = "" if whole.seconds_left is None else f"{duration(whole.seconds_left)} left"
    counts = count_text({"failed": whole.failed, "refused": whole.refused})
    rest = "; ".join(part for part in (counts, left) if part)
    place = f"[{whole.complete + whole.failed}/{whole.runs - whole.refused}]"
    click.echo(f"{place} {label(cell, varying(matrix.cells))}{repeat}: {ended} ({rest})", err=True)


def summarised(matrix: Matrix, work: MatrixRun, planned: dict[str, PlannedCell]) -> list[CellSummary]:
    """Each cell of which this controller has runs, with their outcome."""
    summaries = []
    for cell in matrix.cells:
        runs = [run for run in work.states.values() if run.cell == cell.identity]
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
    )


def show_table(summaries: Sequence[CellSummary]) -> None:
    """Print the cells, and why some have no result."""
    from llmperf.reporting.matrix import columns, problem_lines, rows, varying

    keys = varying([summary.cell for summary in summaries])
    print_table(columns(keys), rows(summaries, keys))
    if lines := list(problem_lines(summaries, keys)):
        click.echo("\n" + "\n".join(map(painted, lines)))


def _show_plan(matrix: Matrix, planned: dict[str, PlannedCell], quiet: bool) -> None:
    """Print which cells would run."""
    from llmperf.reporting.matrix import CellSummary

    summaries = [
        CellSummary(
            cell=cell,
            runs=matrix.repeats,
            throughputs=(),
            complete=0,
            error_findings=0,
            folders=(),
            refusals=planned[cell.identity].problems,
        )
        for cell in matrix.cells
    ]
    if quiet:
        print_json({"name": matrix.name, "cells": [summary.document() for summary in summaries]})
        return
    show_table(summaries)
    refused = sum(bool(cell.problems) for cell in planned.values())
    click.echo(f"\n{len(planned) - refused} cells x {matrix.repeats} runs, {refused} cells refused")


def _document(matrix: Matrix, folder: Path, whole: Whole, summaries: Sequence[CellSummary]) -> dict[str, Any]:
    cells = [summary.document() for summary in summaries]
    return {"name": matrix.name, "folder": str(folder), "whole": whole, "cells": cells}
