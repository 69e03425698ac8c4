"""`llmperf profile`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llmperf.cli.colour import warn
from llmperf.cli.options import Folder, Steps
from llmperf.cli.output import print_json, print_table
from llmperf.cli.request import request, request_options, say_what_was_left_out
from llmperf.files.text import printable

if TYPE_CHECKING:
    from llmperf.running.profile import Profile

EXAMPLES = """\b
Examples:
  llmperf profile
  llmperf profile default --devices 1 --steps 5
  llmperf profile default --set micro_batch=1 --json
  llmperf profile default --steps 12-14
"""
OPERATIONS = 12
"""Rows of the table of single operations; `profile.json` has all."""


@click.command("profile", epilog=EXAMPLES)
@request_options
@click.option("--steps", metavar="N|STEPS", type=Steps(), default="3", show_default=True,
              help="Profiled steps: so many after --warmup, or those with numbers such as 12-14.")  # fmt: skip
@click.option("--warmup", metavar="N", type=click.IntRange(0, 100), default=2, show_default=True,
              help="Steps before the profiled ones, if --steps is their number.")  # fmt: skip
@click.option("--rank", metavar="R", type=click.IntRange(min=0), default=0, show_default=True,
              help="The rank that is profiled.")  # fmt: skip
@click.option("--trace/--no-trace", default=True, help="Write a Chrome trace to the run folder.")
@click.option("--out", metavar="DIR", type=Folder(path_type=Path), default=Path("runs"), show_default=True,
              help="Folder for run folders.")  # fmt: skip
@click.pass_context
def command(
    ctx: click.Context, /, steps: int | tuple[int, ...], warmup: int, rank: int, trace: bool, out: Path, **options: Any
) -> None:
    """Show where the time of a step of CASE goes, by the framework's profiler, and against the estimate.

    The profiler slows the steps down: a profile is never a result.
    """
    from llmperf.measuring.profiled import ProfileTask
    from llmperf.planning.build import plan_run
    from llmperf.planning.ready import ready
    from llmperf.running.measure import startable
    from llmperf.running.profile import profile_run
    from llmperf.running.suggestions import with_suggestions

    if steps == 0:
        raise click.BadParameter("expected at least 1 step, found 0.", param_hint="'--steps'")
    numbers = tuple(range(warmup + 1, warmup + 1 + steps)) if isinstance(steps, int) else steps
    asked = request(options)
    outcome = plan_run(*asked)
    try:
        say_what_was_left_out(outcome)
        task = ProfileTask(steps=numbers, rank=rank, trace=trace)
        planned = ready(startable(with_suggestions(outcome, asked)))
        unprofiled = numbers[-1] - len(numbers)
        text = f"{unprofiled} + {len(numbers)} steps with rank {rank} under the profiler, in a folder of {out}"
        click.echo(text, err=True)
        profile = profile_run(planned, out, task, lambda line: warn(printable(line, " ")))
    finally:
        outcome.machine.close()
    if options["as_json"]:
        print_json(profile)
    else:
        _print(profile)


def _print(document: Profile) -> None:
    from llmperf.reporting.text_table import Column
    from llmperf.runfolder.filenames import trace_files

    profile = document.profile
    step = profile.step_seconds
    click.echo(f"{document.label}\n")
    click.echo(f"step {1e3 * step:,.1f} ms (rank {profile.rank}, mean of {profile.steps}, {profile.profiler})")
    hidden = profile.overlapped_seconds
    click.echo(
        f"communication {_ms(profile.communication_seconds)} ms, {_ms(hidden)} ms of it beside computation;"
        f" idle {_ms(profile.idle_seconds)} ms ({_share(profile.idle_seconds, step)})\n"
    )
    estimate = "estimated ms" if document.rates is None else f"estimated ms ({document.rates} rates)"
    headings = ("kind", "ms", "of the step", estimate, "gap ms")
    columns = [Column(title=title, importance=place, right=place > 1) for place, title in enumerate(headings, 1)]
    print_table(
        columns,
        [
            [
                each.kind,
                _ms(each.seconds),
                _share(each.seconds, step),
                None if each.estimated_seconds is None else _ms(each.estimated_seconds),
                None if each.estimated_seconds is None else _ms(each.seconds - each.estimated_seconds),
            ]
            for each in document.kinds
        ],
    )
    click.echo()
    titles = ("operation", "ms", "calls", "kind", "")
    columns = [
        Column(title=title, importance=place, right=place in (2, 3)) for place, title in enumerate(titles[:4], 1)
    ]
    print_table(
        columns,
        [
            [printable(each.name, " ")[:60], _ms(each.seconds), f"{each.calls:,.0f}", each.kind]
            for each in profile.operations[:OPERATIONS]
        ],
    )
    for line in profile.notes:
        click.echo(f"\nnote: {printable(line, ' ')}")
    click.echo(f"\nrun folder: {printable(document.folder, ' ')}")
    for trace in trace_files(Path(document.folder), profile.rank):
        click.echo(f"Chrome trace: {printable(str(trace), ' ')}")


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.1f}"


def _share(seconds: float, step: float) -> str:
    return f"{100 * seconds / step:.1f} %" if step else "-"
