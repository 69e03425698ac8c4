"""`llmperf summary`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from llmperf.cli.numbers import Finite
from llmperf.cli.output import json_option, print_json, print_table, said_once

if TYPE_CHECKING:
    from llmperf.baselines import Baseline, Held
    from llmperf.results.groups import Group

    Rows = list[tuple[Group, float | None]]

EXAMPLES = """\b
Examples:
  llmperf summary runs/                                       best, median and spread of each kind of run
  llmperf summary runs/ --baseline reference/ --fail-below 0.95   for CI: exit 1 if any got slower than that
  llmperf summary runs/ --baseline published                  against the published rows that fit, and which those are
"""


@click.command("summary", epilog=EXAMPLES)
@click.argument("paths", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--baseline", metavar="published|PATH",
              help="Runs or imported documents to hold these against; `published`: those shipped.")  # fmt: skip
@click.option("--fail-below", metavar="SHARE", type=Finite(min=0, min_open=True),
              help="Exit with 1 if a median is below this share of its baseline's.")  # fmt: skip
@json_option
@click.pass_context
def command(
    ctx: click.Context, paths: tuple[Path, ...], baseline: str | None, fail_below: float | None, as_json: bool
) -> None:
    """Best, median and spread of token/p/s for each kind of run: the same case, changes, device and layout.

    A baseline is one on the same case, contract and device; of several, the fastest. A published row has to be on the
    same case, model, device, precision, sequence length and number of devices; of several, the one that differs least.
    """
    from llmperf.errors import UserError
    from llmperf.results.groups import grouped
    from llmperf.validation.reading_results import found_results

    if fail_below is not None and baseline is None:
        raise UserError("--fail-below: expected --baseline PATH beside it, to know what to hold the runs against")
    groups = grouped(said_once(one for path in paths for one in found_results(path)))
    runs, published = _baselines(baseline)
    held = {group.kind: _held(group, published) for group in groups if published}
    rows = [(group, held[group.kind].share if published else _share(group, runs)) for group in groups]
    if as_json:
        print_json([_document(group, share, held.get(group.kind)) for group, share in rows])
    else:
        _print(rows, list(held.values()))
    ctx.exit(_judge(rows, fail_below))


def _baselines(baseline: str | None) -> tuple[list[Group], list[Baseline]]:
    """Kinds of runs, or published rows where there are no runs; UserError where there is neither."""
    from llmperf.baselines import SHIPPED, published_at
    from llmperf.results.groups import grouped
    from llmperf.validation.reading_results import found_reportable

    if baseline is None:
        return [], []
    path = SHIPPED if baseline == "published" else Path(baseline)
    results, _ = found_reportable([path])
    return (grouped(said_once(results)), []) if results else ([], published_at(path))


def _held(group: Group, published: list[Baseline]) -> Held:
    from llmperf.baselines import held

    return held(group, published)


def _share(group: Group, baselines: list[Group]) -> float | None:
    """Its median as a share of its baseline's; None where it has no baseline or no figure."""
    from llmperf.results.groups import baseline_of

    found = baseline_of(group, baselines)
    if found is None or found.spread is None or group.spread is None or not found.spread.median:
        return None
    return group.spread.median / found.spread.median


def _document(group: Group, share: float | None, held: Held | None) -> dict[str, object]:
    runs = [result.run_id for result in group.results]
    document = {"kind": group.kind, "runs": runs, "spread": group.spread, "of_baseline": share}
    return document if held is None else document | {"published": held.document()}


def _print(rows: Rows, held: list[Held]) -> None:
    from llmperf.reporting.comparison import SUMMARY_HEADERS, published_lines, summary_row

    print_table(SUMMARY_HEADERS, (summary_row(group, share) for group, share in rows))
    if held:
        click.echo()
        click.echo("\n".join(published_lines(held)))


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
