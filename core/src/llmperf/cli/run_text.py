"""Output of `llmperf run`: the line before them, the end of a log, and the table of repeats."""

from __future__ import annotations

from pathlib import Path

import click

from llmperf.cli.colour import painted, painted_severities
from llmperf.cli.output import print_table
from llmperf.files.text import printable
from llmperf.planning.states import Planned
from llmperf.reporting.cells import number as figure
from llmperf.reporting.cells import percent, shown
from llmperf.reporting.result_sheets import figure_rows
from llmperf.reporting.safe_text import printable as one_line
from llmperf.reporting.text_table import Column
from llmperf.reporting.words import finding_text, sentence, word
from llmperf.results.repeats import spread
from llmperf.types.result import Result

LOG_LINES = 20
"""Lines of a failed rank's log that are printed; the result has more."""


def log_tail(result: Result, language: str) -> None:
    """Print the end of a failed rank's log on standard error."""
    failure = result.failure
    if failure is None or not failure.log_tail:
        return
    text = "last lines of the log:" if failure.rank is None else "last lines of the log of rank {rank}:"
    click.echo("\n" + sentence(text, language, rank=failure.rank), err=True)
    for line in failure.log_tail[-LOG_LINES:]:
        click.echo("  " + printable(line, " "), err=True)


def headline(planned: Planned) -> str:
    """The line that is printed before a run, such as `default: llama_mini by zero on 2 x AMD EPYC (cpu), 30 steps`."""
    spec, device = planned.spec, planned.machine.probe.devices[0]
    ranks = spec.tuning.nodes * spec.tuning.devices
    what = f"{spec.case}{' (variant)' if spec.variant else ''}: {spec.contract.model} by {spec.tuning.framework}"
    return f"{what} on {ranks} x {device.model} ({planned.machine.vendor}), {spec.contract.steps} steps"


REPEAT_FIGURES = (
    "tokens_per_second_per_device",
    "step_seconds_median",
    "mfu_nominal",
    "final_loss",
    "rank_peak_bytes",
)
"""Keys of the figures in a table of repeats."""


def repeat_line(result: Result, number: int, repeat: int, language: str = "en") -> str:
    """`run 2 of 4: 1,234.5 token/p/s`, and why there is no MFU; printed when the run has ended."""
    what = f"{figure(result.metrics.tokens_per_second_per_device)} token/p/s"
    if result.status != "complete":
        what = painted(word(result.status, language))
    if result.peak_problem is not None:
        what = sentence("{what}; no MFU: {why}", language, what=what, why=printable(result.peak_problem, " "))
    return sentence("run {number} of {repeat}: {what}", language, number=number, repeat=repeat, what=what)


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
    print_table(columns, rows, language=language)
    findings = [(result.run_id, finding) for _, result in results for finding in result.findings]
    if findings:
        click.echo()
    for run_id, finding in findings:
        click.echo(painted_severities(f"{one_line(run_id)}: {finding_text(finding, language)}"))
    for _, result in results:
        if result.peak_problem is not None:
            values = {"run": one_line(result.run_id), "why": one_line(result.peak_problem)}
            click.echo(sentence("{run}: no MFU: {why}", language, **values))
    say_spread([result for _, result in results], language)


def say_spread(results: list[Result], language: str = "en") -> None:
    """Print the spread over repeats, or why there is none."""
    measured = spread(results)
    if measured is None:
        click.echo(word("no complete run, so no spread", language))
        return
    values: dict[str, object] = {"runs": measured.runs, "all": len(results), "median": figure(measured.median)}
    text = "token/p/s median {median}; no spread: {runs} of {all} runs complete"
    if measured.relative is not None:
        values |= {"minimum": figure(measured.minimum), "maximum": figure(measured.maximum)}
        values["spread"] = percent(measured.relative)
        text = "{runs} runs: token/p/s median {median}, {minimum} to {maximum}, spread {spread} of the median"
    click.echo("\n" + sentence(text, language, **values))
