"""`llmperf run CASE --scale 1,2,4`: efficiency over numbers of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from llmperf import encode_pretty, print_table, write_bytes
from llmperf.reporting import PERCENT, THROUGHPUT, UNKNOWN, Column, rounded
from llmperf.types import CalledRun, RunSeries

from llmperf_sweep.cell_tables import CellSummary
from llmperf_sweep.efficiency import ScalingDocument, ScalingPoint, scaling_document
from llmperf_sweep.matrix import print_cells, run_cells
from llmperf_sweep.scaling_runs import scaling_runs

SCALING = "scaling.json"
REPEATS = 3
"""Runs with each number of ranks, unless `--repeat` says otherwise."""


def run_scaling(called: CalledRun, series: RunSeries) -> int:
    """Run with each number of ranks in turn, several times; the exit code."""
    values, choice = called.values, called.choice
    repeats = values["repeat"] if called.given("repeat") else REPEATS
    local = values["launcher"] == "local"
    runs = scaling_runs(series, choice, values["scale"], values["scaling"], repeats, local=local)

    def show(folder: Path, summaries: Sequence[CellSummary], quiet: bool) -> dict[str, Any]:
        places = {cell.identity: place for place, cell in enumerate(runs.matrix.cells)}
        measured = [
            runs.measured(places[summary.cell.identity], summary.throughputs, summary.folders) for summary in summaries
        ]
        document = scaling_document(runs.plans[0].spec.case, values["scaling"], measured, runs.device)
        if values["part"] is None:  # a part has not all runs
            write_bytes(folder / SCALING, encode_pretty(document))
        if not quiet:
            if any(summary.status != "complete" for summary in summaries):
                print_cells(summaries)
                click.echo()
            print_scaling(document)
        return {"scaling": document}

    return run_cells(called, series, runs.matrix, show)


def print_scaling(document: ScalingDocument) -> None:
    """Print a row for each number of ranks, and what has to be known to read it."""
    click.echo(f"{document.case}: {document.scaling} scaling\n")
    titles = ("ranks", "nodes x devices", "global batch", "runs", "tokens/s", "token/p/s", "speed-up", "efficiency")
    importance = {"ranks": 1, "efficiency": 2, "95 % interval": 3, "speed-up": 4, "tokens/s": 5}
    columns = [Column(title=title, importance=importance.get(title, 6), right=True)
               for title in (*titles, "95 % interval")]  # fmt: skip
    print_table(columns, [_row(point) for point in document.points])
    for note in document.notes:
        click.echo(f"\n{note}")


def _row(point: ScalingPoint) -> list[str]:
    measured, total = point.measured, point.tokens_per_second
    interval = UNKNOWN
    if point.efficiency_low is not None and point.efficiency_high is not None:
        interval = f"{rounded(point.efficiency_low, PERCENT)} to {rounded(point.efficiency_high, PERCENT)}"
    return [
        str(measured.ranks),
        f"{measured.nodes} x {measured.devices}",
        f"{measured.global_batch:,}",
        str(len(measured.throughputs)),
        rounded(total, THROUGHPUT),
        rounded(None if total is None else total / measured.ranks, THROUGHPUT),
        UNKNOWN if point.speed_up is None else f"{point.speed_up:.2f} of {point.ideal_speed_up:g}",
        UNKNOWN if point.efficiency is None else rounded(point.efficiency, PERCENT),
        interval,
    ]
