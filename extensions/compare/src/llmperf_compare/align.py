"""`llmperf align`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from llmperf.cli.colour import on_stdout, painted, warn
from llmperf.cli.completed_values import run_folders
from llmperf.cli.options import Finite
from llmperf.cli.output import json_option, language_option, print_json, print_table, print_text

if TYPE_CHECKING:
    from llmperf.results.alignment import Alignment
    from llmperf.types import Result

WORDS = {True: "ok", False: "failed", None: "warning"}
"""The word whose colour each verdict has."""

EXAMPLES = """\b
Examples:
  llmperf align runs/MINE runs/REFERENCE               as published results are aligned
  llmperf align runs/A runs/B runs/REF --from-step 1   several runs against the last one, from the first step on
  llmperf align runs/A runs/REF --from-step 1 --step-limit 1e-3 --json
"""


@click.command("align", epilog=EXAMPLES)
@click.argument(
    "runs",
    metavar="RUN... REFERENCE",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path),
    shell_complete=run_folders,
)
@click.option(
    "--from-step", type=click.IntRange(1), metavar="N", help="First step that counts in the mean, from 1. [21]"
)
@click.option(
    "--mean-limit", type=Finite(min=0, min_open=True), metavar="SHARE", help="Largest mean relative error. [0.02]"
)
@click.option("--step-limit", type=Finite(min=0), metavar="NATS", help="Largest difference of any step. [none]")
@click.option("--plot/--no-plot", default=True, help="Draw the curves. [on]")
@language_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    runs: tuple[Path, ...],
    from_step: int | None,
    mean_limit: float | None,
    step_limit: float | None,
    plot: bool,
    language: str,
    as_json: bool,
) -> None:
    """Compare the loss of runs with that of a reference, step by step. Each is a run folder or a result.json.

    A run that failed, or whose loss is not a number, is not aligned. The outcome is unknown for a run compared with
    itself, or with one on another model, data, seed, sequence length, batch or optimiser.

    Exits with 0 if all are aligned, 1 if a run is not or it is unknown, 2 if a result cannot be read.
    """
    from llmperf.errors import UserError
    from llmperf.results.alignment import FROM_STEP, MEAN_LIMIT, align
    from llmperf.validation.reading_documents import read_run_result

    if len(runs) < 2:
        raise UserError("llmperf align: expected one run or more and the reference, found one path")
    results = [read_run_result(path) for path in runs]
    limit = MEAN_LIMIT if mean_limit is None else mean_limit
    runs_with_losses = [result for result in results[:-1] if result.loss_curve] or results[:-1]
    for result in results[:-1]:
        if result not in runs_with_losses:
            warn(f"not aligned: {result.run_id} is {result.status} and has no losses")
    alignments = [align(run, results[-1], from_step or FROM_STEP, limit, step_limit) for run in runs_with_losses]
    if as_json:
        print_json(alignments)
    else:
        _print(alignments, [*runs_with_losses, results[-1]], limit, plot, language)
    ctx.exit(0 if len(alignments) == len(results) - 1 and all(alignment.passed for alignment in alignments) else 1)


def _print(alignments: list[Alignment], results: list[Result], limit: float, plot: bool, language: str) -> None:
    from llmperf.reporting import alignment as text

    names = text.labels(results)
    print_table(*text.step_rows(alignments, names, language))
    for drawing in text.plots(alignments, names, on_stdout(), language) if plot else ():
        print_text(f"\n{drawing}")
    click.echo()
    for alignment in alignments:
        print_text(painted(WORDS[alignment.passed], text.verdict(alignment, names, limit, language)))
