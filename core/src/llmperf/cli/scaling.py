"""`llmperf run CASE --scale 1,2,4`: efficiency over numbers of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llmperf.cli.matrix import folder_of, is_given, print_cells, run_cells
from llmperf.cli.output import print_table

if TYPE_CHECKING:
    from llmperf.planning.states import Request
    from llmperf.reporting.matrix import CellSummary
    from llmperf.results.scaling import ScalingDocument, ScalingPoint

SCALING = "scaling.json"
REPEATS = 3
"""Runs with each number of ranks, unless `--repeat` says otherwise."""


def run_scaling(ctx: click.Context, request: Request, options: dict[str, Any]) -> int:
    """Run with each number of ranks in turn, several times; the exit code."""
    from llmperf.running.scaling import scaling_runs

    repeats = options["repeat"] if is_given(ctx, "repeat") else REPEATS
    runs = scaling_runs(request, options["scale"], options["scaling"], repeats)

    def show(folder: Path, summaries: Sequence[CellSummary], quiet: bool) -> dict[str, Any]:
        from llmperf.files.json_files import save
        from llmperf.results.scaling import scaling_document

        places = {cell.identity: place for place, cell in enumerate(runs.matrix.cells)}
        measured = [
            runs.measured(places[summary.cell.identity], summary.throughputs, summary.folders) for summary in summaries
        ]
        document = scaling_document(runs.plans[0].spec.case, options["scaling"], measured, runs.device)
        if options["part"] is None:  # a part has not all runs
            save(folder / SCALING, document)
        if not quiet:
            if any(summary.status != "complete" for summary in summaries):
                print_cells(summaries)
                click.echo()
            print_scaling(document)
        return {"scaling": document}

    return run_cells(runs.matrix, folder_of(ctx, runs.matrix), request, options, show)


def print_scaling(document: ScalingDocument) -> None:
    """Print a row for each number of ranks, and what has to be known to read it."""
    from llmperf.reporting.text_table import Column

    click.echo(f"{document.case}: {document.scaling} scaling\n")
    titles = ("ranks", "nodes x devices", "global batch", "runs", "tokens/s", "token/p/s", "speed-up", "efficiency")
    importance = {"ranks": 1, "efficiency": 2, "95 % interval": 3, "speed-up": 4, "tokens/s": 5}
    columns = [Column(title=title, importance=importance.get(title, 6), right=True)
               for title in (*titles, "95 % interval")]  # fmt: skip
    print_table(columns, [_row(point) for point in document.points])
    for note in document.notes:
        click.echo(f"\n{note}")


def _row(point: ScalingPoint) -> list[str]:
    from llmperf.reporting.cells import UNKNOWN, number, percent

    measured, total = point.measured, point.tokens_per_second
    interval = UNKNOWN
    if point.efficiency_low is not None and point.efficiency_high is not None:
        interval = f"{percent(point.efficiency_low)} to {percent(point.efficiency_high)}"
    return [
        str(measured.ranks),
        f"{measured.nodes} x {measured.devices}",
        f"{measured.global_batch:,}",
        str(len(measured.throughputs)),
        number(total),
        number(None if total is None else total / measured.ranks),
        UNKNOWN if point.speed_up is None else f"{point.speed_up:.2f} of {point.ideal_speed_up:g}",
        UNKNOWN if point.efficiency is None else percent(point.efficiency),
        interval,
    ]
