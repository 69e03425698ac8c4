"""`llmperf run`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from llmperf.cli.called_run import CalledRun, RunCommand, ready_by, warn
from llmperf.cli.colour import painted, painted_severities
from llmperf.cli.completion import logger_names
from llmperf.cli.options import Folder, Minutes, Text
from llmperf.cli.output import language_option, print_json, print_text
from llmperf.cli.request import request_options, say_what_was_left_out
from llmperf.files.text import printable

if TYPE_CHECKING:
    from llmperf.planning.states import Outcome, Planned
    from llmperf.types.result import Finding, Result

EXAMPLES = """\b
Examples:
  llmperf run
  llmperf run default --vendor cpu --devices 1
  llmperf run default --set steps=50 --set micro_batch=4 --repeat 4
  llmperf run llama2_7b_pretrain_zero --set model=llama_tiny --set dataset=synthetic --dry-run
  llmperf run default --log tensorboard=boards --log openmetrics=llmperf.prom
"""


@click.command("run", cls=RunCommand, epilog=EXAMPLES)
@request_options
@click.option(
    "--repeat", metavar="N", type=click.IntRange(1, 1000), default=1, help="Run this many times and show the spread."
)
@click.option("--dry-run", is_flag=True, help="Show the plan and stop.")
@click.option("--log", "logs", metavar="NAME=VALUE", type=Text(), multiple=True, shell_complete=logger_names,
              help="Log each run by an extension, such as tensorboard=DIR. May be repeated.")  # fmt: skip
@click.option("--wait-until-idle", metavar="[MINUTES]", type=Minutes(), is_flag=False, flag_value=30.0,
              envvar="LLMPERF_WAIT_UNTIL_IDLE",
              help="Start when other programs leave host and devices alone; gives up after MINUTES (30).")  # fmt: skip
@click.option("--out", metavar="DIR", type=Folder(path_type=Path), default=Path("runs"), show_default=True,
              help="Folder for run folders.")  # fmt: skip
@language_option
@click.pass_obj
def command(
    run: CalledRun,
    /,
    repeat: int,
    dry_run: bool,
    out: Path,
    as_json: bool,
    wait_until_idle: float | None,
    language: str,
    **_: Any,
) -> None:
    """Train CASE on the devices of this machine, measure it, write a checked result to runs/<id>/.

    Exits with 1 if the run failed or its result has an error finding, 2 for bad input, 130 if interrupted.
    """
    from llmperf.planning.build import plan_only, plan_run
    from llmperf.planning.ready import ready
    from llmperf.running.suggestions import with_suggestions

    if (code := run.handed_over()) is not None:
        run.ctx.exit(code)
    asked = run.request
    if dry_run:
        from llmperf.cli.plan import show

        run.ctx.exit(show(with_suggestions(ready(plan_only(*asked)), asked), as_json))
    outcome = plan_run(*asked)
    try:
        results = _run(run, with_suggestions(outcome, asked), out, repeat, as_json, ready_by(wait_until_idle), language)
    finally:
        outcome.machine.close()
    if as_json:
        documents = [{"folder": str(folder), "result": result} for folder, result in results]
        print_json(documents[0] if repeat == 1 else documents)
    elif repeat > 1:
        from llmperf.cli.run_text import show_repeats

        show_repeats(results, language)
    run.ctx.exit(_exit_code([result for _, result in results]))


def _run(
    run: CalledRun,
    outcome: Outcome,
    out: Path,
    repeat: int,
    quiet: bool,
    wait: Callable[[Planned], None] | None,
    language: str,
) -> list[tuple[Path, Result]]:
    from llmperf.cli.progress_line import begin_run
    from llmperf.cli.run_text import headline, log_tail, repeat_line
    from llmperf.planning.ready import ready
    from llmperf.reporting.terminal import result_card
    from llmperf.reporting.words import finding_text, sentence
    from llmperf.runfolder.filenames import trace_files
    from llmperf.running.measure import measure, startable

    results: list[tuple[Path, Result]] = []
    shown: list[Finding] = []

    def show(folder: Path, result: Result) -> None:
        """Print the figures and the folder before the rules of plugins are applied."""
        shown[:] = result.findings
        if quiet:
            return
        if repeat == 1:
            print_text(painted_severities(result_card(result, painted, language)))
            click.echo("\n" + sentence("run folder: {folder}", language, folder=folder))
            for trace in trace_files(folder, 0):
                click.echo(sentence("Chrome trace: {path}", language, path=trace))
        else:
            click.echo(repeat_line(result, len(results) + 1, repeat, language), err=True)

    say_what_was_left_out(outcome)
    planned = ready(startable(outcome))
    click.echo(headline(planned), err=True)
    if planned.plan.peak_problem and wait is None:
        warn(f"no MFU: {printable(planned.plan.peak_problem, ' ')}")
    if run.checks:
        from llmperf.running.node_checks import with_checked_nodes

        planned = with_checked_nodes(planned, run.checks)
    begun = monotonic()
    begin_run(1, repeat, None)
    for folder, result in measure(planned, out, repeat, warn, show, wait):
        results.append((folder, result))
        left = repeat - len(results)
        if left:
            begin_run(len(results) + 1, repeat, (monotonic() - begun) / len(results) * left)
        if quiet:
            continue
        for finding in result.findings if repeat == 1 else ():
            if finding not in shown:
                click.echo(painted_severities(finding_text(finding, language)))
        log_tail(result, language)
    return results


def _exit_code(results: list[Result]) -> int:
    if any(result.failure is not None and result.failure.reason == "interrupted" for result in results):
        return 130
    bad = any(result.status != "complete" for result in results)
    wrong = any(finding.severity == "error" for result in results for finding in result.findings)
    return 1 if bad or wrong else 0
