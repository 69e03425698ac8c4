"""`llmperf summary`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from llmperf.cli.colour import painted_severities
from llmperf.cli.numbers import Finite
from llmperf.cli.output import json_option, print_json, print_table, said_once, wide_option

if TYPE_CHECKING:
    from llmperf_published.baselines import Held
    from llmperf_published.types.document import Published

    from llmperf.results.groups import Group
    from llmperf.results.standing import Standing

    Documents = Sequence[tuple[Path, Published]]
    Rows = list[tuple[Group, Held | Standing | None]]

EXAMPLES = """\b
Examples:
  llmperf summary runs/                                       best, median and spread of each kind of run
  llmperf summary runs/ --baseline reference/ --fail-below 0.95   for CI: exit 1 if any got slower than that
  llmperf summary imported/                                   imported documents by model, vendor and device
  llmperf summary runs/ --baseline published                  against the published rows that fit, and which those are
"""


@click.command("summary", epilog=EXAMPLES)
@click.argument("paths", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--baseline", metavar="published|PATH",
              help="Runs or imported documents to hold these against; `published`: those shipped.")  # fmt: skip
@click.option("--fail-below", metavar="SHARE", type=Finite(min=0, min_open=True),
              help="Exit with 1 if a median is below this share of its baseline's.")  # fmt: skip
@wide_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[Path, ...],
    baseline: str | None,
    fail_below: float | None,
    wide: bool,
    as_json: bool,
) -> None:
    """Best, median and spread of token/p/s for each kind of run, by model and contract, the fastest first.

    A kind has the same case, changes, device, part of it that a rank had, framework and layout. Its baseline is the
    same kind; where the baseline has none, the fastest on the same case, contract, device and part of it. A published
    row has to be on the same case, model, device, precision, sequence length and number of devices; of several, the
    one that differs least. Imported documents alone are shown by model, vendor and device, with how many rows were
    checked. --fail-below looks at the ratio of medians alone: whether chance could make it is told.
    """
    from llmperf.errors import UserError
    from llmperf.reporting.runs_by_kind import in_rank
    from llmperf.results.groups import grouped
    from llmperf.validation.reading_results import found_results

    if fail_below is not None and baseline is None:
        raise UserError("--fail-below: expected --baseline PATH beside it, to know what to hold the runs against")
    try:
        runs = [one for path in paths for one in found_results(path)]
    except UserError:
        if not (documents := _imported(paths)):
            raise
        if baseline is not None:
            raise UserError("--baseline: expected runs to hold against it, found imported documents") from None
        _summarise(documents, wide, as_json)
        return
    groups = grouped(said_once(runs))
    rows = in_rank(_rows(groups, baseline))
    if as_json:
        print_json([_document(group, held) for group, held in rows])
    else:
        _print(rows, baseline is not None, wide)
    ctx.exit(_judge(rows, fail_below))


def _imported(paths: tuple[Path, ...]) -> Documents:
    """The imported documents at paths where there are no runs; none where one of the paths cannot be read."""
    from llmperf.errors import UserError
    from llmperf.validation.reading_results import found_reportable

    try:
        results, documents = found_reportable(paths)
    except UserError:
        return ()
    return () if results else documents


def _summarise(documents: Documents, wide: bool, as_json: bool) -> None:
    """Print imported documents by model, vendor and device."""
    from llmperf_published.reporting.summary import COLUMNS, kinds, table_rows
    from llmperf_published.rules.verdicts import closing

    found = kinds(documents)
    if as_json:
        print_json([one.document() for one in found])
        return
    print_table(COLUMNS, table_rows(found), wide, "--wide, --json")
    click.echo(f"\n{closing([verdict for one in found for _, verdict in one.rows])}")


def _rows(groups: list[Group], baseline: str | None) -> Rows:
    """Each kind of run, held against its baseline; UserError where there are neither runs nor published rows."""
    if baseline is None:
        return [(group, None) for group in groups]
    from llmperf_published.baselines import SHIPPED, held, published_at

    from llmperf.results.groups import grouped
    from llmperf.results.standing import standing
    from llmperf.validation.reading_results import found_reportable

    path = SHIPPED if baseline == "published" else Path(baseline)
    results, _ = found_reportable([path])
    if results:
        baselines = grouped(said_once(results))
        return [(group, standing(group, baselines)) for group in groups]
    published = published_at(path)
    return [(group, held(group, published)) for group in groups]


def _document(group: Group, held: Held | Standing | None) -> dict[str, object]:
    from llmperf.results.spread import disturbed
    from llmperf.results.standing import Standing

    runs = [result.run_id for result in group.results]
    uneven = [result.run_id for result in group.results if disturbed(result)]
    document = {"kind": group.kind, "runs": runs, "spread": group.spread, "disturbed": uneven}
    document["of_baseline"] = None if held is None else held.share
    if held is None:
        return document
    return document | (held.document() if isinstance(held, Standing) else {"published": held.document()})


def _print(rows: Rows, with_baseline: bool, wide: bool) -> None:
    from llmperf.reporting import runs_by_kind as text
    from llmperf.reporting.comparison import published_lines
    from llmperf.results.standing import Standing

    columns = text.COLUMNS + text.BASELINE_COLUMNS * with_baseline
    shown = (text.row(group, held, with_baseline) for group, held in rows)
    print_table(columns, shown, wide, "--wide, --json")
    published = [held for _, held in rows if held is not None and not isinstance(held, Standing)]
    for lines in (published_lines(published), text.warnings(rows)):
        if told := "\n".join(lines):
            click.echo(f"\n{painted_severities(told)}")


def _judge(rows: Rows, fail_below: float | None) -> int:
    """1 if a group is too slow or has nothing to be held against where that was asked for."""
    if fail_below is None:
        return 0
    known = [(held, held.share) for _, held in rows if held is not None and held.share is not None]
    slow = [held for held, share in known if share < fail_below]
    alone = len(rows) - len(known)
    if slow:
        told = f"{len(slow)} of {len(rows)} below {fail_below:g} of the baseline"
        click.echo(f"{told}, {sum(map(_shown_lower, slow))} of them shown to be more than chance", err=True)
    if alone:
        click.echo(f"{alone} of {len(rows)} without a figure or without a baseline", err=True)
    return 1 if slow or alone else 0


def _shown_lower(held: Held | Standing) -> bool:
    """Whether chance alone would hardly make it so; of a published figure that cannot be told."""
    from llmperf.results.standing import Standing

    return isinstance(held, Standing) and held.comparison is not None and held.comparison.verdict == "lower"
