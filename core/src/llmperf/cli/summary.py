"""`llmperf summary`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from llmperf.cli.output import json_option, print_json, print_table

if TYPE_CHECKING:
    from llmperf.results.groups import Group

    Rows = list[tuple[Group, float | None]]

EXAMPLES = """\b
Examples:
  llmperf summary runs/                                       best, median and spread of each kind of run
  llmperf summary runs/ --baseline reference/ --fail-below 0.95   for CI: exit 1 if any got slower than that
"""


@click.command("summary", epilog=EXAMPLES)
@click.argument("paths", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--baseline", metavar="PATH", type=click.Path(path_type=Path), help="Runs to hold these against.")
@click.option("--fail-below", metavar="SHARE", type=click.FloatRange(0, min_open=True),
              help="Exit with 1 if a median is below this share of its baseline's.")  # fmt: skip
@json_option
@click.pass_context
def command(
    ctx: click.Context, paths: tuple[Path, ...], baseline: Path | None, fail_below: float | None, as_json: bool
) -> None:
    """Best, median and spread of token/p/s for each kind of run: the same case, changes, device and layout.

    A baseline is one on the same case, contract and device; of several, the fastest.
    """
    from llmperf.errors import UserError
    from llmperf.results.groups import grouped
    from llmperf.validation.check import read_results

    if fail_below is not None and baseline is None:
        raise UserError("--fail-below: expected --baseline PATH beside it, to know what to hold the runs against")
    groups = grouped(result for path in paths for result in read_results(path))
    baselines = grouped(read_results(baseline)) if baseline is not None else []
    rows = [(group, _share(group, baselines)) for group in groups]
    if as_json:
        print_json([_document(group, share) for group, share in rows])
    else:
        _print(rows)
    ctx.exit(_judge(rows, fail_below))


def _share(group: Group, baselines: list[Group]) -> float | None:
    """Its median as a share of its baseline's; None where it has no baseline or no figure."""
    from llmperf.results.groups import baseline_of

    found = baseline_of(group, baselines)
    if found is None or found.spread is None or group.spread is None or not found.spread.median:
        return None
    return group.spread.median / found.spread.median


def _document(group: Group, share: float | None) -> dict[str, object]:
    runs = [result.run_id for result in group.results]
    return {"kind": group.kind, "runs": runs, "spread": group.spread, "of_baseline": share}


def _print(rows: Rows) -> None:
    from llmperf.reporting.comparison import SUMMARY_HEADERS, summary_row

    print_table(SUMMARY_HEADERS, (summary_row(group, share) for group, share in rows))


def _judge(rows: Rows, fail_below: float | None) -> int:
    """1 if a group is too slow or has nothing to be held against where that was asked for."""
    if fail_below is None:
        return 0
    slow = [share for _, share in rows if share is not None and share < fail_below]
    alone = sum(share is None for _, share in rows)
    if slow:
        click.echo(f"{len(slow)} of {len(rows)} below {fail_below:g} of the baseline", err=True)
    if alone:
        click.echo(f"{alone} of {len(rows)} without a figure or without a baseline", err=True)
    return 1 if slow or alone else 0
