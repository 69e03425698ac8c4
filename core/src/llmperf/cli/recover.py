"""`llmperf recover`."""

from __future__ import annotations

from pathlib import Path

import click

from llmperf.cli.colour import painted, painted_severities
from llmperf.cli.options import paths_argument
from llmperf.files.text import printable

EXAMPLES = """\b
Examples:
  llmperf recover runs/ID
  llmperf recover runs/*
"""


@click.command("recover", epilog=EXAMPLES)
@paths_argument("runs", "RUN...")
@click.pass_context
def command(ctx: click.Context, runs: tuple[Path, ...]) -> None:
    """Write the result of runs whose llmperf was killed before it could, from their plan and records.

    RUN is a run folder. The run is complete if every rank had written all of its records, and otherwise failed, with
    the step that it had reached. A folder that has a result is left as it is.

    Records that a run through a launcher has left on its nodes are fetched first, with the options of llmperf.toml.

    Exits with 0, 1 if a run is not complete or has an error finding, 2 if a run is going on or a folder is no run's.
    """
    from llmperf.reporting.terminal import result_card
    from llmperf.running.recovered import recover

    code = 0
    for run in runs:
        result, made = recover(run, lambda line: click.echo(printable(line, " "), err=True))
        wrong = any(finding.severity == "error" for finding in result.findings)
        code = max(code, int(wrong or result.status != "complete"))
        if not made:
            click.echo(f"{run}: has its result already: {painted(result.status)}")
            continue
        click.echo(painted_severities(result_card(result, painted)))
        click.echo(f"\nrun folder: {run}")
    ctx.exit(code)
