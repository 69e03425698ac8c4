"""`llmperf summary`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from llmperf.cli.colour import painted_severities
from llmperf.cli.options import Finite
from llmperf.cli.output import (
    distinct_results,
    json_option,
    language_option,
    print_json,
    print_table,
    wide_option,
)

if TYPE_CHECKING:
    from llmperf.reporting.runs_by_kind import ComparedKind
    from llmperf.results.baselines import AnyComparison
    from llmperf.results.groups import Group
    from llmperf.types import Section

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
              help="Runs or imported documents to compare with; `published`: the rows shipped.")  # fmt: skip
@click.option("--fail-below", metavar="SHARE", type=Finite(min=0, min_open=True),
              help="Exit with 1 if a median is below this share of its baseline's.")  # fmt: skip
@language_option
@wide_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[Path, ...],
    baseline: str | None,
    fail_below: float | None,
    language: str,
    wide: bool,
    as_json: bool,
) -> None:
    """Best, median and spread of token/p/s for each kind of run, by model and contract, the fastest first.

    The spread is (maximum - minimum) / median; one run has none.

    A kind has the same case, changes, device, part of it that a rank had, framework and layout. Its baseline is the
    same kind; where the baseline has none, the fastest on the same case, contract, device and part of it. A published
    row has to be on the same case, model, device, precision, sequence length and number of devices; of several, the
    one that differs least. Imported documents alone are shown by model, vendor and device, with how many rows were
    checked. --fail-below looks at the ratio of medians alone; the output says whether it may be chance.

    Exits with 0, 1 if --fail-below is given and a median is below it or a kind has no figure or no baseline, 2 if
    something cannot be read.
    """
    from llmperf.errors import UserError
    from llmperf.reporting.reading import read_results, summaries
    from llmperf.reporting.runs_by_kind import fastest_first
    from llmperf.results.groups import grouped

    if fail_below is not None and baseline is None:
        raise UserError("--fail-below: expected --baseline PATH beside it, to know what to compare the runs with")
    runs = [run for path in paths for run in read_results(path)]
    if not runs:
        if baseline is not None:
            raise UserError("--baseline: expected runs to compare with it, found imported documents")
        _print_summaries(list(summaries(paths)), language, wide, as_json)
        return
    kinds = fastest_first(_with_baseline(grouped(distinct_results(runs)), baseline))
    if as_json:
        print_json([_document(group, comparison) for group, comparison in kinds])
    else:
        _print(kinds, baseline is not None, language, wide)
    ctx.exit(_exit_code(kinds, fail_below))


def _print_summaries(sections: Sequence[Section], language: str, wide: bool, as_json: bool) -> None:
    """Imported documents, a table for each kind of them."""
    from llmperf.reporting.cells import shown
    from llmperf.reporting.words import word

    if as_json:
        print_json([{row.key: row.value for row in record} for section in sections for record in section.records])
        return
    for section in sections:
        headers = [word(row.label, language) for row in section.records[0]] if section.records else []
        print_table(headers, ([shown(row) for row in record] for record in section.records), wide, "--wide, --json")
        for row in section.rows:
            click.echo(f"\n{shown(row)}")


def _with_baseline(groups: Sequence[Group], baseline: str | None) -> list[ComparedKind]:
    """Each kind of run compared with its baseline: runs, or figures from documents; UserError if there are neither."""
    if baseline is None:
        return [(group, None) for group in groups]
    from llmperf.reporting.reading import read_baselines, read_results
    from llmperf.results.baselines import compared_with_figures, compared_with_runs
    from llmperf.results.groups import grouped

    if Path(baseline).exists() and (results := read_results(Path(baseline))):
        baselines = grouped(distinct_results(results))
        return [(group, compared_with_runs(group, baselines)) for group in groups]
    kind, figures = read_baselines(baseline)
    return [(group, compared_with_figures(group, kind, figures)) for group in groups]


def _document(group: Group, comparison: AnyComparison | None) -> dict[str, object]:
    from llmperf.results.groups import disturbed

    runs = [result.run_id for result in group.results]
    uneven = [result.run_id for result in group.results if disturbed(result)]
    document = {"kind": group.kind, "runs": runs, "spread": group.spread, "disturbed": uneven}
    document["of_baseline"] = None if comparison is None else comparison.share
    return document if comparison is None else document | comparison.document()


def _print(kinds: Sequence[ComparedKind], with_baseline: bool, language: str, wide: bool) -> None:
    from dataclasses import replace

    from llmperf.reporting import runs_by_kind as text
    from llmperf.reporting.comparison import baseline_lines
    from llmperf.reporting.words import word
    from llmperf.results.baselines import BaselineComparison

    columns = text.COLUMNS + text.BASELINE_COLUMNS * with_baseline
    headers = [replace(column, title=word(column.title, language)) for column in columns]
    rows = (text.kind_row(group, comparison, with_baseline) for group, comparison in kinds)
    print_table(headers, rows, wide, "--wide, --json")
    figures = [comparison for _, comparison in kinds if isinstance(comparison, BaselineComparison)]
    for lines in (baseline_lines(figures), text.warnings(kinds)):
        if paragraph := "\n".join(lines):
            click.echo(f"\n{painted_severities(paragraph)}")


def _exit_code(kinds: Sequence[ComparedKind], fail_below: float | None) -> int:
    """1 if a kind of runs is too slow or has no baseline, where that was asked for."""
    from llmperf.results.baselines import RunComparison

    if fail_below is None:
        return 0
    comparisons = [comparison for _, comparison in kinds if comparison is not None and comparison.share is not None]
    slow = [comparison for comparison in comparisons if comparison.share is not None and comparison.share < fail_below]
    alone = len(kinds) - len(comparisons)
    lower = [
        comparison for comparison in slow
        if isinstance(comparison, RunComparison) and comparison.comparison and comparison.comparison.verdict == "lower"
    ]  # fmt: skip
    if slow:
        click.echo(
            f"{len(slow)} of {len(kinds)} below {fail_below:g} of the baseline, {len(lower)} of them shown to be more"
            " than chance",
            err=True,
        )
    if alone:
        click.echo(f"{alone} of {len(kinds)} without a figure or without a baseline", err=True)
    return 1 if slow or alone else 0
