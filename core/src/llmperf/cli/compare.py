"""`llmperf compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from llmperf.cli.colour import painted_severities
from llmperf.cli.output import json_option, print_json, print_table, said_once

if TYPE_CHECKING:
    from llmperf_published.baselines import Held

    from llmperf.results.comparison_side import Side, Sides

EXAMPLES = """\b
Examples:
  llmperf compare runs/after runs/before     two folders of repeats (llmperf run --repeat 4 --out runs/after)
  llmperf compare runs/MINE runs/OTHER       two runs: ratios, no verdict: one run has no spread
  llmperf compare runs/after runs/before --json
  llmperf compare runs/MINE --baseline published   against the published row that fits
"""


@click.command("compare", epilog=EXAMPLES)
@click.argument("ours", metavar="A", type=click.Path(path_type=Path))
@click.argument("theirs", metavar="[B]", required=False, type=click.Path(path_type=Path))
@click.option("--baseline", metavar="published|DIR",
              help="Published rows to hold the runs against: those shipped, or imported ones.")  # fmt: skip
@json_option
@click.pass_context
def command(ctx: click.Context, ours: Path, theirs: Path | None, baseline: str | None, as_json: bool) -> None:
    """Hold the runs of A against those of B. Each is a run folder, a result.json, or a folder of repeats.

    Where the contracts differ there are no ratios: the figures measure different things, and the output says in what
    they differ. Failed runs and copies are left out and counted. A run can be on one side only. There is a warning for
    a side that mixes kinds of run, for very uneven steps, and for ranks with different parts of a device.

    Exits with 0, 1 when the two measured different contracts or no published row fits, 2 when something cannot be
    read.
    """
    from llmperf.errors import UserError

    if theirs is None and baseline is None:
        raise UserError("compare: expected B, or --baseline published, to know what to hold the runs against")
    sides = {"A": _side(ours)} | ({"B": _side(theirs)} if theirs else {})
    found = _compared(sides["A"], sides["B"]) if theirs else None
    published = {} if baseline is None else {name: _held(side, baseline) for name, side in sides.items()}
    if as_json:
        _print_json(sides, found, published)
    else:
        _print(sides, found)
        _print_published(published)
    alone = any(one.share is None for held in published.values() for one in held)
    ctx.exit(1 if alone or (found and found.contract_differences) else 0)


def _side(path: Path) -> Side:
    """The runs at a path; UserError where none is complete with a throughput."""
    from llmperf.errors import UserError
    from llmperf.results.comparison_side import side
    from llmperf.validation.reading_results import found_reportable

    results, _ = found_reportable([path])
    if not results:
        raise UserError(f"{path}: expected runs, found imported documents; hold runs against them by --baseline {path}")
    runs = said_once(results)
    found = side(runs, copies=len(results) - len(runs))
    if not found.results:
        raise UserError(f"{path}: expected a complete run with a throughput, found none in {len(runs)} results")
    return found


def _compared(ours: Side, theirs: Side) -> Sides:
    """The sides held against each other; UserError where a run is on both."""
    from llmperf.errors import UserError
    from llmperf.results.comparison_side import compared
    from llmperf.results.deduplicate import on_both

    if both := on_both(ours.results, theirs.results):
        count = f"{len(both)} of the {len(ours.results)} runs of A"
        raise UserError(f"compare: expected each run on one side, found {count} in B too, such as {both[0].run_id}")
    return compared(ours, theirs)


def _held(side: Side, baseline: str) -> list[Held]:
    """Each kind of runs against the published row that fits."""
    from llmperf_published.baselines import SHIPPED, held, published_at

    rows = published_at(SHIPPED if baseline == "published" else Path(baseline))
    return [held(group, rows) for group in side.groups]


def _documents(published: Mapping[str, Sequence[Held]]) -> dict[str, list[dict[str, object]]]:
    return {name: [{"kind": one.group.kind} | one.document() for one in held] for name, held in published.items()}


def _print_json(sides: Mapping[str, Side], found: Sides | None, published: Mapping[str, Sequence[Held]]) -> None:
    document: dict[str, object] = {"sides": {name: side.document() for name, side in sides.items()}}
    if found is not None:
        alike = not found.contract_differences
        document |= {"contract_differences": found.contract_differences}
        document |= {"throughput": found.throughput if alike else None}
        document |= {"device_throughput": found.device_throughput if alike else None}
    print_json(document | ({"published": _documents(published)} if published else {}))


def _print(sides: Mapping[str, Side], found: Sides | None) -> None:
    from llmperf.reporting import comparison as text
    from llmperf.reporting.cells import counted
    from llmperf.reporting.comparison_text import side_lines, warning_lines

    for lines in (side_lines, warning_lines):
        for name, side in sides.items():
            for line in lines(name, side):
                click.echo(painted_severities(line))
    click.echo()
    if found is None:
        return
    headers = [f"{name} ({counted(len(side.results), 'run')})" for name, side in sides.items()]
    apart, alike = found.device_throughput is not None, not found.contract_differences
    ours, theirs = (side.results for side in sides.values())
    print_table(["median of", *headers, *["A / B"] * alike], text.figure_rows(ours, theirs, apart, ratios=alike))
    click.echo()
    click.echo("\n".join(text.verdict_lines(sides, found)))


def _print_published(published: Mapping[str, Sequence[Held]]) -> None:
    """What each side is held against."""
    from llmperf.reporting.comparison import published_lines

    for name, held in published.items():
        click.echo("\n".join(f"{name}: {line}" for line in published_lines(held)))
