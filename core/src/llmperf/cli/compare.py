"""`llmperf compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from llmperf.cli.colour import painted_severities
from llmperf.cli.output import distinct_results, json_option, language_option, print_json, print_table

if TYPE_CHECKING:
    from llmperf.results.baselines import BaselineComparison
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
              help="Published rows to compare the runs with: those shipped, or imported ones.")  # fmt: skip
@language_option
@json_option
@click.pass_context
def command(
    ctx: click.Context, ours: Path, theirs: Path | None, baseline: str | None, language: str, as_json: bool
) -> None:
    """Compare the runs of A with those of B. Each is a run folder, a result.json, or a folder of repeats.

    Where the contracts differ there are no ratios: the figures measure different things, and the output says in what
    they differ. Failed runs and copies are left out and counted. A run can be on one side only. There is a warning for
    a side that mixes kinds of run, for very uneven steps, and for ranks with different parts of a device.

    Exits with 0, 1 when the two measured different contracts or no published row fits, 2 when something cannot be
    read.
    """
    from llmperf.errors import UserError

    if theirs is None and baseline is None:
        raise UserError("B: expected runs or documents, or --baseline published, to know what to compare the runs with")
    sides = {"A": _side(ours)} | ({"B": _side(theirs)} if theirs else {})
    comparison = _compared(sides["A"], sides["B"]) if theirs else None
    with_baseline = {} if baseline is None else _with_baseline(sides, baseline)
    if as_json:
        _print_json(sides, comparison, with_baseline)
    else:
        _print(sides, comparison, language)
        _print_baselines(with_baseline)
    alone = any(one.share is None for comparisons in with_baseline.values() for one in comparisons)
    ctx.exit(1 if alone or (comparison and comparison.contract_differences) else 0)


def _side(path: Path) -> Side:
    """The runs at a path; UserError if none is complete with a throughput."""
    from llmperf.errors import UserError
    from llmperf.reporting.reading import read_results
    from llmperf.results.comparison_side import side

    results = read_results(path)
    if not results:
        raise UserError(f"{path}: expected runs, found imported documents; compare runs with them by --baseline {path}")
    runs = distinct_results(results)
    complete = side(runs, copies=len(results) - len(runs))
    if not complete.results:
        raise UserError(f"{path}: expected a complete run with a throughput, found none in {len(runs)} results")
    return complete


def _compared(ours: Side, theirs: Side) -> Sides:
    """The sides compared with each other; UserError if a run is on both."""
    from llmperf.errors import UserError
    from llmperf.results.comparison_side import compared
    from llmperf.results.groups import on_both

    if both := on_both(ours.results, theirs.results):
        count = f"{len(both)} of the {len(ours.results)} runs of A"
        raise UserError(f"A and B: expected each run on one side, found {count} in B too, such as {both[0].run_id}")
    return compared(ours, theirs)


def _with_baseline(sides: Mapping[str, Side], baseline: str) -> dict[str, list[BaselineComparison]]:
    """Each kind of runs on each side compared with the figure that fits."""
    from llmperf.reporting.reading import read_baselines
    from llmperf.results.baselines import compared_with_figures

    kind, figures = read_baselines(baseline)
    return {
        name: [compared_with_figures(group, kind, figures) for group in side.groups] for name, side in sides.items()
    }


def _print_json(
    sides: Mapping[str, Side], comparison: Sides | None, with_baseline: Mapping[str, Sequence[BaselineComparison]]
) -> None:
    document: dict[str, object] = {"sides": {name: side.document() for name, side in sides.items()}}
    if comparison is not None:
        alike = not comparison.contract_differences
        document |= {"contract_differences": comparison.contract_differences}
        document |= {"throughput": comparison.throughput if alike else None}
        document |= {"device_throughput": comparison.device_throughput if alike else None}
    for kind in {one.kind for comparisons in with_baseline.values() for one in comparisons}:
        document[kind] = {
            name: [{"kind": one.group.kind} | one.figures() for one in comparisons]
            for name, comparisons in with_baseline.items()
        }
    print_json(document)


def _print(sides: Mapping[str, Side], comparison: Sides | None, language: str) -> None:
    from llmperf.reporting import comparison as text
    from llmperf.reporting.cells import counted
    from llmperf.reporting.words import word

    for lines in (text.side_lines, text.warning_lines):
        for name, side in sides.items():
            for line in lines(name, side):
                click.echo(painted_severities(line))
    click.echo()
    if comparison is None:
        return
    apart, alike = comparison.device_throughput is not None, not comparison.contract_differences
    headers = [word("median of", language)]
    headers += [f"{name} ({counted(len(side.results), 'run')})" for name, side in sides.items()]
    ours, theirs = (side.results for side in sides.values())
    rows = text.median_rows(ours, theirs, apart, ratios=alike)
    print_table([*headers, *["A / B"] * alike], ([word(label, language), *others] for label, *others in rows))
    click.echo()
    click.echo("\n".join(text.verdict_lines(sides, comparison)))


def _print_baselines(with_baseline: Mapping[str, Sequence[BaselineComparison]]) -> None:
    from llmperf.reporting.comparison import baseline_lines

    for name, comparisons in with_baseline.items():
        click.echo("\n".join(f"{name}: {line}" for line in baseline_lines(comparisons)))
