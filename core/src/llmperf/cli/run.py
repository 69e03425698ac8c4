"""`llmperf run`: trains a case on devices, and measures it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Any

import click

from llmperf.cli.called_run import CalledRun, RunCommand, warn
from llmperf.cli.colour import painted, painted_severities
from llmperf.cli.options import Folder
from llmperf.cli.output import language_option, print_json, print_table, print_text, verbose_option
from llmperf.cli.request import request_options, say_what_was_left_out, show_plan
from llmperf.files.text import printable
from llmperf.reporting import spread
from llmperf.reporting.cells import number as figure
from llmperf.reporting.cells import percent, shown
from llmperf.reporting.result_sheets import figure_rows, result_sheet
from llmperf.reporting.terminal import card
from llmperf.reporting.words import finding_text, sentence, word
from llmperf.reporting.words import printable as one_line
from llmperf.runfolder.filenames import TRACES
from llmperf.types.result import Finding, Result
from llmperf.types.sheet import Column

EXAMPLES = """\b
Examples:
  llmperf run
  llmperf run default --vendor cpu --devices 1
  llmperf run default --set steps=50 --set micro_batch=4 --repeat 4
  llmperf run llama2_7b_pretrain_zero --set model=llama_tiny --set dataset=synthetic --dry-run
"""


LOG_LINES = 20
"""Lines of a failed rank's log that are printed; the result has more."""


@click.command("run", cls=RunCommand, epilog=EXAMPLES)
@request_options
@click.option("--repeat", metavar="N", type=click.IntRange(1, 1000), default=1,
              help="Run this many times and show the spread.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show the plan and stop.")
@click.option("-o", "--out", metavar="DIR", type=Folder(path_type=Path), default=Path("runs"), show_default=True,
              help="Folder for run folders.")  # fmt: skip
@language_option
@verbose_option
@click.option("-q", "--quiet", is_flag=True, help="Print the verdict alone, and no progress.")
@click.pass_obj
def command(
    run: CalledRun, /, repeat: int, dry_run: bool, as_json: bool, language: str, verbose: bool, quiet: bool, **_: Any
) -> None:
    """Train CASE on the devices of this machine, measure it, write a checked result to runs/<id>/.

    Exits with 1 if the run failed or its result has an error finding, 2 for bad input, 130 if interrupted.
    """
    from llmperf.cli.progress_line import begin_run, no_progress
    from llmperf.planning.build import plan_run
    from llmperf.planning.ready import ready
    from llmperf.running.hosts_before import with_checked_nodes
    from llmperf.running.measure import measure, startable
    from llmperf.running.suggestions import with_suggestions

    if (code := run.handed_over()) is not None:
        run.ctx.exit(code)
    asked = run.request
    if dry_run:
        run.ctx.exit(show_plan(asked, as_json))
    results, listed = list[tuple[Path, Result]](), list[Finding]()

    def show(folder: Path, result: Result) -> None:
        """Print a result before the rules of other packages are applied."""
        listed[:] = result.findings
        if repeat == 1 and not as_json:
            show_result(folder, result, language, verbose, quiet)
        elif not as_json:
            show_repeat(result, len(results) + 1, repeat, language)

    outcome = plan_run(*asked)
    with closing(outcome.machine):
        outcome = with_suggestions(outcome, asked)
        if quiet:
            no_progress()
        say_what_was_left_out(outcome)
        planned = ready(startable(outcome))
        spec, device = planned.spec, planned.machine.probe.devices[0]
        what = f"{spec.case}{' (variant)' if spec.variant else ''}: {spec.contract.model} by {spec.tuning.framework}"
        where = f"{spec.tuning.nodes * spec.tuning.devices} x {device.model} ({planned.machine.vendor})"
        if not quiet:
            click.echo(f"{what} on {where}, {spec.contract.steps} steps", err=True)
        if planned.plan.peak_problem and not run.before:
            warn(f"no MFU: {printable(planned.plan.peak_problem, ' ')}")
        if run.checks:
            planned = with_checked_nodes(planned, run.checks)
        begun = monotonic()
        begin_run(1, repeat, None)
        for folder, result in measure(planned, run.values["out"], repeat, warn, show, run.before):
            results.append((folder, result))
            if left := repeat - len(results):
                begin_run(len(results) + 1, repeat, (monotonic() - begun) / len(results) * left)
            if not as_json:
                told = [one for one in result.findings if one not in listed and (one.severity == "error" or not quiet)]
                show_end(result, told if repeat == 1 else (), language)
    if as_json:
        documents = [{"folder": str(folder), "result": result} for folder, result in results]
        print_json(documents[0] if repeat == 1 else documents)
    elif repeat > 1:
        show_repeats(results, language)
    ended = [result for _, result in results]
    if any(result.failure is not None and result.failure.reason == "interrupted" for result in ended):
        run.ctx.exit(130)
    bad = any(result.status != "complete" for result in ended)
    run.ctx.exit(int(bad or any(finding.severity == "error" for result in ended for finding in result.findings)))


def show_result(folder: Path, result: Result, language: str, verbose: bool, quiet: bool) -> None:
    """Print the figures of a run, its folder and its traces."""
    text = card(result_sheet(result), language, painted, verbose)
    print_text(painted_severities(text.partition("\n\n")[0] if quiet else text))
    click.echo("\n" * (not quiet) + sentence("run folder: {folder}", language, folder=folder))
    for trace in sorted((folder / TRACES).glob("rank-00000*.json.gz")):
        click.echo(sentence("Chrome trace: {path}", language, path=trace))


def show_repeat(result: Result, number: int, repeat: int, language: str) -> None:
    """Print a line for one run of several."""
    what = f"{figure(result.metrics.tokens_per_second_per_device)} token/p/s"
    if result.status != "complete":
        what = painted(word(result.status, language))
    if result.peak_problem is not None:
        why = printable(result.peak_problem, " ")
        what = sentence("{what}; no MFU: {why}", language, what=what, why=why)
    text = "run {number} of {repeat}: {what}"
    click.echo(sentence(text, language, number=number, repeat=repeat, what=what), err=True)


def show_end(result: Result, further: Iterable[Finding], language: str) -> None:
    """Print further findings of a run, and the end of the log if it failed."""
    for finding in further:
        click.echo(painted_severities(finding_text(finding, language)))
    if (failure := result.failure) is not None and failure.log_tail:
        text = "last lines of the log:" if failure.rank is None else "last lines of the log of rank {rank}:"
        click.echo("\n" + sentence(text, language, rank=failure.rank), err=True)
        for line in failure.log_tail[-LOG_LINES:]:
            click.echo("  " + printable(line, " "), err=True)


REPEAT_FIGURES = ("tokens_per_second_per_device", "step_seconds_median", "mfu_nominal", "final_loss", "rank_peak_bytes")
"""Keys of the figures in a table of repeats."""


def show_repeats(results: list[tuple[Path, Result]], language: str = "en") -> None:
    """Print a table of repeats, their findings, and the spread; each run folder has a full report."""
    columns = [Column(title=word("run folder", language), importance=1, wraps=18)]
    figures = [figure_rows(result) for _, result in results]
    titles = [word(figures[0][key].label, language) for key in REPEAT_FIGURES]
    columns += [Column(title=title, importance=place, right=True) for place, title in enumerate(titles, 3)]
    columns.append(Column(title=word("status", language), importance=2))
    rows = [
        [str(folder), *(shown(rows_of_run[key]) for key in REPEAT_FIGURES), word(result.status, language)]
        for (folder, result), rows_of_run in zip(results, figures, strict=True)
    ]
    print_table(columns, rows)
    findings = [(result.run_id, finding) for _, result in results for finding in result.findings]
    if findings:
        click.echo()
    for run_id, finding in findings:
        click.echo(painted_severities(f"{one_line(run_id)}: {finding_text(finding, language)}"))
    for _, result in results:
        if result.peak_problem is not None:
            values = {"run": one_line(result.run_id), "why": one_line(result.peak_problem)}
            click.echo(sentence("{run}: no MFU: {why}", language, **values))
    measured = spread([result for _, result in results])
    if measured is None:
        click.echo(word("no complete run, so no spread", language))
        return
    of_all: dict[str, object] = {"runs": measured.runs, "all": len(results), "median": figure(measured.median)}
    text = "token/p/s median {median}; no spread: {runs} of {all} runs complete"
    if measured.relative is not None:
        of_all |= {"minimum": figure(measured.minimum), "maximum": figure(measured.maximum)}
        of_all["spread"] = percent(measured.relative)
        text = "{runs} runs: token/p/s median {median}, {minimum} to {maximum}, spread {spread} of the median"
    click.echo("\n" + sentence(text, language, **of_all))
