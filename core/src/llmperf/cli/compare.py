"""`llmperf compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from llmperf.cli.output import json_option, print_json, print_table

if TYPE_CHECKING:
    from llmperf.results.comparison import Comparison
    from llmperf.types import Result

EXAMPLES = """\b
Examples:
  llmperf compare runs/MINE runs/OTHER       two runs: ratios, no verdict, since one run tells nothing of the spread
  llmperf compare runs/after runs/before     two folders of repeats (llmperf run --repeat 5 --out runs/after)
  llmperf compare runs/after runs/before --json
"""


@click.command("compare", epilog=EXAMPLES)
@click.argument("ours", metavar="A", type=click.Path(path_type=Path))
@click.argument("theirs", metavar="B", type=click.Path(path_type=Path))
@json_option
@click.pass_context
def command(ctx: click.Context, ours: Path, theirs: Path, as_json: bool) -> None:
    """Hold the runs of A against those of B. Each is a run folder, a result.json, or a folder of repeats.

    Exits with 0, 1 when the two measured different contracts, 2 when something cannot be read.
    """
    from llmperf.results.comparison import compare
    from llmperf.results.groups import contract_differences

    first, second = _complete(ours), _complete(theirs)
    different = contract_differences(first, second)
    found = compare(_throughputs(first), _throughputs(second))
    if as_json:
        print_json({"contract_differences": different, "throughput": found})
    else:
        _print(first, second, found, different)
    ctx.exit(1 if different else 0)


def _complete(path: Path) -> list[Result]:
    """The complete results at a path that have a throughput; UserError if there is none."""
    from llmperf.errors import UserError
    from llmperf.validation.check import read_results

    found = read_results(path)
    complete = [one for one in found if one.metrics.tokens_per_second_per_device and one.status == "complete"]
    if not complete:
        raise UserError(f"{path}: expected a complete run with a throughput, found none in {len(found)} results")
    return complete


def _throughputs(results: list[Result]) -> list[float]:
    return [figure for one in results if (figure := one.metrics.tokens_per_second_per_device) is not None]


def _print(first: list[Result], second: list[Result], found: Comparison, different: tuple[str, ...]) -> None:
    from llmperf.reporting import comparison as text

    headers = ["median of", f"A ({len(first)} runs)", f"B ({len(second)} runs)", "A / B"]
    print_table(headers, text.figure_rows(first, second))
    click.echo()
    if different:
        click.echo(f"the contracts differ in {', '.join(different)}: these figures measure different things")
    else:
        click.echo(text.verdict(found))
