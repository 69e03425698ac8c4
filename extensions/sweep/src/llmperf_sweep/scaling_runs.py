"""`llmperf run CASE --scale 1,2,4`: one cell of a matrix for each number of ranks, and the efficiency over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from llmperf import encode_pretty, print_table, write_bytes
from llmperf.errors import UserError
from llmperf.reporting import PERCENT, THROUGHPUT, UNKNOWN, Column, rounded
from llmperf.types import CalledRun, Plan, RunChoice, RunSeries

from llmperf_sweep.efficiency import Measured, Scaling, ScalingDocument, scaling_document
from llmperf_sweep.matrix import CellSummary, print_cells, run_cells
from llmperf_sweep.matrix_file import Cell, Matrix

MOST_NUMBERS = 100
SCALING = "scaling.json"
REPEATS = 3
"""Runs with each number of ranks, unless `--repeat` says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """One number of ranks, and where they run."""

    nodes: int
    devices: int
    """Ranks on each node."""

    @property
    def ranks(self) -> int:
        """On all nodes."""
        return self.nodes * self.devices


def run_scaling(called: CalledRun, series: RunSeries) -> int:
    """Run with each number of ranks in turn, several times; the exit code."""
    values = called.values
    repeats = values["repeat"] if called.given("repeat") else REPEATS
    local = values["launcher"] == "local"
    matrix, plans = scaling_runs(series, called.choice, values["scale"], values["scaling"], repeats, local=local)
    places = {cell.identity: place for place, cell in enumerate(matrix.cells)}

    def show(folder: Path, summaries: Sequence[CellSummary], quiet: bool) -> dict[str, Any]:
        measured = []
        for summary in summaries:
            plan = plans[places[summary.cell.identity]]
            measured.append(
                Measured(
                    ranks=plan.layout.world_size,
                    nodes=plan.layout.nodes,
                    devices=plan.layout.devices_per_node,
                    global_batch=plan.batch.global_batch,
                    device_share=plan.device_share,
                    throughputs=summary.throughputs,
                    runs=summary.folders,
                )
            )
        device = plans[0].probe.devices[0].model
        document = scaling_document(plans[0].spec.case, values["scaling"], measured, device)
        if values["part"] is None:  # a part has not all runs
            write_bytes(folder / SCALING, encode_pretty(document))
        if not quiet:
            if any(summary.status != "complete" for summary in summaries):
                print_cells(summaries)
                click.echo()
            print_scaling(document)
        return {"scaling": document}

    return run_cells(called, series, matrix, show)


def print_scaling(document: ScalingDocument) -> None:
    """Print a row for each number of ranks, and what has to be known to read it."""
    click.echo(f"{document.case}: {document.scaling} scaling\n")
    titles = ("ranks", "nodes x devices", "global batch", "runs", "tokens/s", "token/p/s", "speed-up", "efficiency")
    importance = {"ranks": 1, "efficiency": 2, "95 % interval": 3, "speed-up": 4, "tokens/s": 5}
    columns = [Column(title=title, importance=importance.get(title, 6), right=True)
               for title in (*titles, "95 % interval")]  # fmt: skip
    rows = []
    for point in document.points:
        measured, total, interval = point.measured, point.tokens_per_second, UNKNOWN
        if point.efficiency_low is not None and point.efficiency_high is not None:
            interval = f"{rounded(point.efficiency_low, PERCENT)} to {rounded(point.efficiency_high, PERCENT)}"
        rows.append([
            str(measured.ranks),
            f"{measured.nodes} x {measured.devices}",
            f"{measured.global_batch:,}",
            str(len(measured.throughputs)),
            rounded(total, THROUGHPUT),
            rounded(None if total is None else total / measured.ranks, THROUGHPUT),
            UNKNOWN if point.speed_up is None else f"{point.speed_up:.2f} of {point.ideal_speed_up:g}",
            UNKNOWN if point.efficiency is None else rounded(point.efficiency, PERCENT),
            interval,
        ])  # fmt: skip
    print_table(columns, rows)
    for note in document.notes:
        click.echo(f"\n{note}")


def parse_scale(text: str) -> tuple[str, tuple[int, ...]]:
    """`1,2,4` or `nodes=1,2` as what is counted, `ranks` or `nodes`, and the numbers in ascending order."""
    what, equals, numbers = text.rpartition("=")
    what = what.strip() if equals else "ranks"
    words = [word.strip() for word in numbers.split(",")]
    if what not in ("ranks", "nodes") or not all(word.isdecimal() and 0 < int(word) < 10**7 for word in words):
        raise UserError(f"--scale: expected numbers of ranks, such as 1,2,4, or nodes=1,2,4; found {text!r}")
    counts = sorted(map(int, words))
    if len(set(counts)) < len(counts) or not 2 <= len(counts) <= MOST_NUMBERS:
        raise UserError(f"--scale: expected 2 to {MOST_NUMBERS} different numbers, found {text!r}")
    return what, tuple(counts)


def scaling_runs(
    series: RunSeries, choice: RunChoice, text: str, scaling: Scaling, repeats: int, *, local: bool = True
) -> tuple[Matrix, list[Plan]]:
    """A cell for each number of ranks, ascending, and its plan without peaks; UserError if one cannot run."""
    what, counts = parse_scale(text)
    if what == "ranks" and local and choice.devices is not None:
        raise UserError(f"--devices: expected without --scale {text}, whose numbers are those of the ranks here")
    sizes = _sizes(series, choice, what, counts, local)
    base = _planned(series, _at(choice, sizes[0], local))
    extra = [_batch(base, size, scaling) for size in sizes]
    choices = [_at(choice, size, local, settings) for size, settings in zip(sizes, extra, strict=True)]
    plans = [base, *(_planned(series, one) for one in choices[1:])]
    for size, plan in zip(sizes, plans, strict=True):
        if plan.layout.world_size != size.ranks:
            found = f"{plan.layout.world_size}, the framework's layout"
            raise UserError(f"--scale: expected {size.ranks} ranks, found {found}")
    cells = tuple(
        Cell(case=one.case, vendor=one.vendor, framework=one.framework, devices=size.devices, settings=one.settings)
        for one, size in zip(choices, sizes, strict=True)
    )
    name = f"{Path(choice.case).stem}-{scaling}-scaling"
    return Matrix(name=name, folder=Path(), cells=cells, repeats=repeats, order="shuffled"), plans


def _sizes(series: RunSeries, choice: RunChoice, what: str, counts: Sequence[int], local: bool) -> list[Size]:
    """Nodes and devices of each number. Ranks fill one node before they use whole nodes."""
    one_node = _at(choice, Size(nodes=1, devices=choice.devices or 0), local)
    if what == "nodes":
        per_node = _planned(series, one_node).layout.devices_per_node
        return [Size(nodes=count, devices=per_node) for count in counts]
    if local:
        return [Size(nodes=1, devices=count) for count in counts]
    full = choice.devices or len(series.plan(one_node).probe.devices)
    sizes = [Size(nodes=max(1, count // full), devices=min(count, full)) for count in counts]
    for count, size in zip(counts, sizes, strict=True):
        if size.ranks != count:
            lower = count // full * full
            raise UserError(
                f"--scale {count}: expected up to {full} ranks, which one node has, or a multiple of that; the nearest"
                f" are {lower} and {lower + full}"
            )
    return sizes


def _planned(series: RunSeries, choice: RunChoice) -> Plan:
    """The plan of a run; Refused with every problem if it cannot run."""
    plan = series.plan(choice, must_run=True).plan
    assert plan is not None
    return plan


def _at(choice: RunChoice, size: Size, local: bool, settings: Mapping[str, Any] | None = None) -> RunChoice:
    """The run with one number of ranks; 0 devices are as many as the case says."""
    nodes = {} if local and size.nodes == 1 else {"tuning.nodes": size.nodes}
    return replace(choice, devices=size.devices or None, settings={**choice.settings, **nodes, **(settings or {})})


def _batch(base: Plan, size: Size, scaling: Scaling) -> dict[str, Any]:
    """The settings of the batch with more ranks than `base` has."""
    batch, layout = base.batch, base.layout
    group = layout.world_size // layout.data_parallel
    if size.ranks % group:
        lower = size.ranks // group * group
        near = f"{lower} and {lower + group}" if lower else str(group)
        raise UserError(
            f"--scale {size.ranks}: expected a multiple of the {group} ranks that share a copy of the model; the"
            f" nearest are {near}"
        )
    data_parallel = size.ranks // group
    if size.ranks == layout.world_size:
        return {}
    if scaling == "weak":
        return {"contract.global_batch": batch.global_batch // batch.data_parallel * data_parallel}
    if batch.global_batch % (batch.micro_batch * data_parallel):
        fitting = [
            number for number in range(1, batch.global_batch // batch.micro_batch + 1)
            if batch.global_batch % (batch.micro_batch * number) == 0
        ]  # fmt: skip
        nearest = group * min(fitting, key=lambda number: abs(number - data_parallel))
        raise UserError(
            f"--scale {size.ranks}: global batch {batch.global_batch} is not a multiple of micro batch"
            f" {batch.micro_batch} x data parallel {data_parallel}, as strong scaling needs; the nearest number of"
            f" ranks is {nearest}, or choose --scaling weak"
        )
    return {"contract.global_batch": batch.global_batch}
