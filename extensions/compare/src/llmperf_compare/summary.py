"""One line for each kind of run in some folders: median, spread, history, baseline and cost."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import click
from llmperf import language_option, print_json, print_table, print_text, run_folders, warn, wide_option
from llmperf.errors import UserError
from llmperf.reporting import disturbed, leaves, sheets_of, value_text, word
from llmperf.types import Result, Section

from llmperf_compare.ci_findings import Checked, document, finding, imported_finding, kind_findings
from llmperf_compare.copies import distinct_results, refuse_shared_runs
from llmperf_compare.cost import Costing, costing_for
from llmperf_compare.documents import read_baselines, read_results, results_and_others, summaries
from llmperf_compare.kind_texts import group_text
from llmperf_compare.kinds import RunComparison, compared_with_figures, compared_with_runs, grouped
from llmperf_compare.options import Share, answer_format_options, baselines, cost_options
from llmperf_compare.page import print_page
from llmperf_compare.prices import matched_prices
from llmperf_compare.ranked_kinds import (
    ComparedKind,
    ImportedRow,
    Ranked,
    cost_rows_of,
    device_of,
    ranked_kinds,
    scaling_of,
)
from llmperf_compare.summary_page import fastest_first, summary_page

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
@language_option
@wide_option
@answer_format_options
@click.pass_context
def command(
    ctx: click.Context, paths: tuple[Path, ...], baseline: str | None, fail_below: float | None, prices: Path | None,
    train_tokens: int | None, language: str, wide: bool, wanted: str,
) -> None:  # fmt: skip
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
        click.echo(_findings(kinds, files, ranking, unread, fail_below, wanted, ctx.command_path), nl=False)
    ctx.exit(_exit_code(kinds, fail_below) or int(fail_below is not None and any(unread.values())))


command.params[4:4] = cost_options()


def _findings(
    kinds: Sequence[ComparedKind],
    files: Mapping[int, Path],
    ranking: Sequence[Ranked],
    unread: Mapping[Path, Sequence[str]],
    fail_below: float | None,
    wanted: str,
    command_path: str,
) -> str:
    """The findings on each kind of run, on imported rows and on files that cannot be read."""
    checked = []
    for group, comparison in kinds:
        findings = tuple(kind_findings(group, comparison, fail_below))
        checked.append(Checked(name=group_text(group), path=files[id(group.results[0])], findings=findings))
    for row in (member for member in ranking if isinstance(member, ImportedRow)):
        name, path = f"imported, not measured: {row.sheet.name}", row.sheet.source.path
        checked.append(Checked(name=name, path=path, findings=(imported_finding(row),)))
    for path, lines in unread.items():
        if lines:
            name = f"{path}: files left out"
            unreadable = tuple(finding("unreadable", "error", line) for line in lines)
            checked.append(Checked(name=name, path=path, findings=unreadable))
    return document(checked, wanted, command_path)


def _left_out(lines: list[str], error: UserError) -> None:
    lines.append(str(error))
    warn(f"left out: {error}")


def _print_summaries(sections: Sequence[Section], language: str, wide: bool, as_json: bool) -> None:
    """Imported documents, a table for each kind of them."""
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
    document: dict[str, object] = {} if scaling is None else {"scaling_efficiency": scaling}
    if costing is not None:
        known = {row.key: row.value for row in leaves(cost_rows_of(member, costing))}
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
    if fail_below is None:
        return 0
    shares = [(held, held.share) for _, held in kinds if held is not None and held.share is not None]
    slow = [held for held, share in shares if share < fail_below]
    tests = [held.comparison for held in slow if isinstance(held, RunComparison)]
    lower = [test for test in tests if test is not None and test.high is not None and test.high < fail_below]
    alone = len(kinds) - len(shares)
    if slow:
        click.echo(
            f"{len(slow)} of {len(kinds)} below {fail_below:g} of the baseline, {len(lower)} of them shown to be more"
            " than chance",
            err=True,
        )
    if alone:
        click.echo(f"{alone} of {len(kinds)} without a figure or without a baseline", err=True)
    return 1 if slow or alone else 0
