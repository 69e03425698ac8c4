"""`llmperf compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from llmperf.cli.output import json_option, print_json, print_table, said_once

if TYPE_CHECKING:
    from llmperf.baselines import Held
    from llmperf.results.comparison import Comparison
    from llmperf.types import Result

EXAMPLES = """\b
Examples:
  llmperf compare runs/MINE runs/OTHER       two runs: ratios, no verdict, since one run tells nothing of the spread
  llmperf compare runs/after runs/before     two folders of repeats (llmperf run --repeat 5 --out runs/after)
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

    Exits with 0, 1 when the two measured different contracts or no published row fits, 2 when something cannot be
    read.
    """
    from llmperf.errors import UserError

    if theirs is None and baseline is None:
        raise UserError("compare: expected B, or --baseline published, to know what to hold the runs against")
    sides = {"A": _complete(ours)} | ({"B": _complete(theirs)} if theirs else {})
    different, found = _compared(*sides.values()) if theirs else ((), None)
    published = {} if baseline is None else {name: _held(results, baseline) for name, results in sides.items()}
    if as_json:
        compared = {"contract_differences": different, "throughput": found} if found else {}
        print_json(compared | ({"published": _documents(published)} if published else {}))
    else:
        _print(sides, found, different)
        _print_published(published)
    alone = any(one.share is None for held in published.values() for one in held)
    ctx.exit(1 if different or alone else 0)


def _complete(path: Path) -> list[Result]:
    """The complete results at a path that have a throughput; UserError if there is none."""
    from llmperf.errors import UserError
    from llmperf.validation.reading_results import found_reportable

    found = said_once(found_reportable([path])[0])
    if not found:
        raise UserError(f"{path}: expected runs, found imported documents; hold runs against them by --baseline {path}")
    complete = [one for one in found if one.metrics.tokens_per_second_per_device and one.status == "complete"]
    if not complete:
        raise UserError(f"{path}: expected a complete run with a throughput, found none in {len(found)} results")
    return complete


def _compared(first: list[Result], second: list[Result]) -> tuple[tuple[str, ...], Comparison]:
    """In what the contracts differ, and how the throughputs do."""
    from llmperf.results.comparison import compare
    from llmperf.results.groups import contract_differences

    return contract_differences(first, second), compare(_throughputs(first), _throughputs(second))


def _throughputs(results: list[Result]) -> list[float]:
    return [figure for one in results if (figure := one.metrics.tokens_per_second_per_device) is not None]


def _held(results: list[Result], baseline: str) -> list[Held]:
    """Each kind of runs against the published row that fits."""
    from llmperf.baselines import SHIPPED, held, published_at
    from llmperf.results.groups import grouped

    rows = published_at(SHIPPED if baseline == "published" else Path(baseline))
    return [held(group, rows) for group in grouped(results)]


def _documents(published: Mapping[str, Sequence[Held]]) -> dict[str, list[dict[str, object]]]:
    return {name: [{"kind": one.group.kind} | one.document() for one in held] for name, held in published.items()}


def _print(sides: Mapping[str, list[Result]], found: Comparison | None, different: tuple[str, ...]) -> None:
    from llmperf.reporting import comparison as text

    if found is None:
        return
    headers = [f"{name} ({len(results)} run{'s' * (len(results) > 1)})" for name, results in sides.items()]
    print_table(["median of", *headers, "A / B"], text.figure_rows(*sides.values()))
    click.echo()
    if different:
        click.echo(f"the contracts differ in {', '.join(different)}: these figures measure different things")
    else:
        click.echo(text.verdict(found))


def _print_published(published: Mapping[str, Sequence[Held]]) -> None:
    """What each side is held against."""
    from llmperf.reporting.comparison import published_lines

    for name, held in published.items():
        click.echo("\n".join(f"{name}: {line}" for line in published_lines(held)))
