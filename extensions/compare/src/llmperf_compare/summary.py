"""`llmperf summary`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from llmperf.cli.colour import warn
from llmperf.cli.completed_values import baselines, run_folders
from llmperf.cli.options import Share, prices_option, train_tokens_option
from llmperf.cli.output import (
    answer_format_options,
    distinct_results,
    language_option,
    print_json,
    print_page,
    print_table,
    print_text,
    refuse_shared_runs,
    wide_option,
)

if TYPE_CHECKING:
    from llmperf.errors import UserError
    from llmperf.reporting.cost_rows import Costing
    from llmperf.reporting.ranked_kinds import ComparedKind, Ranked
    from llmperf.types import Result, Section

EXAMPLES = """\b
Examples:
  llmperf summary runs/                                       best, median and spread of each kind of run
  llmperf summary runs/ --baseline reference/ --fail-below 0.95   for CI: exit 1 if any got slower than that
  llmperf summary imported/                                   imported documents by model, vendor and device
  llmperf summary runs/ published                             published rows beside runs of the same contract
  llmperf summary runs/ --baseline published                  against the published rows that fit, and which those are
"""


@click.command("summary", epilog=EXAMPLES)
@click.argument(
    "paths", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path), shell_complete=run_folders
)
@click.option("--baseline", metavar="published|PATH", shell_complete=baselines,
              help="Runs or imported documents to compare with; `published`: the rows shipped.")  # fmt: skip
@click.option("--fail-below", metavar="SHARE", type=Share(),
              help="Exit with 1 if a median is below this share of its baseline's.")  # fmt: skip
@prices_option
@train_tokens_option
@language_option
@wide_option
@answer_format_options
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[Path, ...],
    baseline: str | None,
    fail_below: float | None,
    prices: Path | None,
    train_tokens: int | None,
    language: str,
    wide: bool,
    wanted: str,
) -> None:
    """One line for each kind of run: median, spread and history of token/p/s, by contract, the fastest first.

    The spread is (maximum - minimum) / median; one run has none.

    A kind has the same case, changes, device, part of it that a rank had, framework and layout. Its baseline is the
    same kind; where the baseline has none, the fastest on the same case, contract, device and part of it. A published
    row has to be on the same case, model, device, precision, sequence length and number of devices; of several, the
    one that differs least. With prices, or the tokens of a training, there is the cost at the median.

    Imported rows are ranked beside runs whose contract agrees with all that they state, and marked as imported; they
    have no spread and do not count for --fail-below. Imported documents alone are shown by model, vendor and device,
    with how many rows were checked. --fail-below looks at the ratio of medians alone; the output
    says whether it may be chance. A run that is among those of the baseline too is refused.

    Files in a folder that cannot be read are left out with a warning. Exits with 0, 1 if --fail-below is given and a
    median is below it, a kind has no figure or no baseline, or a file was left out, 2 if nothing can be read.
    """
    from llmperf.errors import UserError
    from llmperf.reporting.cost_rows import costing_for
    from llmperf.reporting.kind_texts import group_text
    from llmperf.reporting.price_matches import matched_prices
    from llmperf.reporting.ranked_kinds import ImportedRow, device_of, ranked_kinds
    from llmperf.reporting.reading import results_and_others, sheets_of, summaries
    from llmperf.reporting.runs_by_kind import fastest_first, scaling_of, summary_page

    if fail_below is not None and baseline is None:
        raise UserError("--fail-below: expected --baseline PATH beside it, to know what to compare the runs with")
    unread: dict[Path, list[str]] = {}
    read = [results_and_others(path, partial(_left_out, unread.setdefault(path, []))) for path in paths]
    runs = [run for results, _ in read for run in results]
    others = [document for _, documents in read for document in documents]
    named = " ".join(map(str, paths))
    if not runs:
        if baseline is not None:
            raise UserError("--baseline: expected runs to compare with it, found imported documents")
        if wanted not in ("terminal", "json"):
            raise UserError(f"--format {wanted}: expected runs, found imported documents: --format terminal or json")
        _print_summaries(list(summaries(paths)), language, wide, wanted == "json")
        asked = {"--prices": prices, "--train-tokens": train_tokens}
        if options := " ".join(f"{name} {value}" for name, value in asked.items() if value is not None):
            warn(f"a summary of imported rows alone has no cost; with it: llmperf report {named} {options}")
        return
    distinct = distinct_results(runs)
    files = {id(result): path for path, result in distinct}
    imported = sheets_of(others, partial(_left_out, []))
    kinds = fastest_first(_with_baseline([result for _, result in distinct], baseline))
    ranking = ranked_kinds(kinds, imported)
    costing = costing_for(prices, train_tokens, warn)
    if costing is not None and costing.prices is not None:
        costing = replace(costing, prices=matched_prices(costing.prices, map(device_of, ranking), warn))
    if wanted == "json":
        scaled = scaling_of(ranking)
        print_json([_document(member, costing, scaled.get(place)) for place, member in enumerate(ranking)])
    elif wanted in ("terminal", "markdown"):
        encoding = sys.stdout.encoding if wanted == "terminal" else "utf-8"
        print_page(summary_page(ranking, baseline is not None, language, encoding, costing), wanted, language, wide)
    else:
        from llmperf.reporting.speed_findings import (
            Checked,
            document,
            imported_finding,
            kind_findings,
            unread_findings,
        )

        checked = [
            Checked(
                name=group_text(group),
                path=files[id(group.results[0])],
                findings=tuple(kind_findings(group, comparison, fail_below)),
            )
            for group, comparison in kinds
        ]
        checked += [
            Checked(
                name=f"imported, not measured: {row.sheet.name}",
                path=row.sheet.source.path,
                findings=(imported_finding(row),),
            )
            for row in ranking
            if isinstance(row, ImportedRow)
        ]
        checked += [
            Checked(name=f"{path}: files left out", path=path, findings=tuple(unread_findings(lines)))
            for path, lines in unread.items()
            if lines
        ]
        click.echo(document(checked, wanted, ctx.command_path), nl=False)
    ctx.exit(_exit_code(kinds, fail_below) or int(fail_below is not None and any(unread.values())))


def _left_out(lines: list[str], error: UserError) -> None:
    lines.append(str(error))
    warn(f"left out: {error}")


def _print_summaries(sections: Sequence[Section], language: str, wide: bool, as_json: bool) -> None:
    """Imported documents, a table for each kind of them."""
    from llmperf.reporting.words import value_text, word

    if as_json:
        print_json([{row.key: row.value for row in record} for section in sections for record in section.records])
        return
    for section in sections:
        headers = [word(row.label, language) for row in section.records[0]] if section.records else []
        rows = ([value_text(row, language) for row in record] for record in section.records)
        print_table(headers, rows, wide, "--wide, --json")
        for row in section.rows:
            print_text(f"\n{value_text(row, language)}")


def _with_baseline(runs: Sequence[Result], baseline: str | None) -> list[ComparedKind]:
    """Each kind of run compared with its baseline: runs, or figures from documents; UserError if there are neither."""
    from llmperf.reporting.reading import read_baselines, read_results
    from llmperf.results.baselines import compared_with_figures, compared_with_runs
    from llmperf.results.groups import grouped

    groups = grouped(runs)
    if baseline is None:
        return [(group, None) for group in groups]
    if Path(baseline).exists() and (results := read_results(Path(baseline), partial(_left_out, []))):
        reference = [result for _, result in distinct_results(results)]
        refuse_shared_runs({"DIR": runs, "--baseline": reference})
        baselines = grouped(reference)
        return [(group, compared_with_runs(group, baselines)) for group in groups]
    kind, figures = read_baselines(baseline)
    return [(group, compared_with_figures(group, kind, figures)) for group in groups]


def _document(member: Ranked, costing: Costing | None, scaling: float | None) -> Mapping[str, object]:
    from llmperf.reporting.cells import leaves
    from llmperf.reporting.cost_rows import cost_rows, kind_cost
    from llmperf.reporting.ranked_kinds import ImportedRow, device_of
    from llmperf.results.disturbances import disturbed

    document: dict[str, object] = {} if scaling is None else {"scaling_efficiency": scaling}
    if costing is not None:
        rows = cost_rows(member.sheet, costing) if isinstance(member, ImportedRow) else kind_cost(member[0], costing)
        known = {row.key: row.value for row in leaves(rows)}
        wanted = ["cost_per_million_tokens"] * (costing.prices is not None)
        wanted += ["train_tokens", "train_device_hours", "train_seconds", "train_cost"] * bool(costing.train_tokens)
        document |= {key: known.get(key) for key in wanted}
        if costing.prices is not None:
            document["price"] = costing.prices.of(device_of(member))
    if isinstance(member, ImportedRow):
        return {**member.document(), **document}
    group, comparison = member
    runs = [result.run_id for result in group.results]
    uneven = [result.run_id for result in group.results if disturbed(result)]
    document = {
        "measured": True,
        "kind": group.kind,
        "runs": runs,
        "spread": group.spread,
        "disturbed": uneven,
        **document,
    }
    document["of_baseline"] = None if comparison is None else comparison.share
    return document if comparison is None else document | comparison.document()


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
