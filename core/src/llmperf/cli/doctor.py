"""`llmperf doctor`."""

from __future__ import annotations

import click

from llmperf.cli.output import json_option, print_json

EXAMPLES = """\b
Examples:
  llmperf doctor
  llmperf doctor --json
"""


@click.command("doctor", epilog=EXAMPLES)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Say what is missing on this machine for which plugin, and the command that mends it.

    Exits with 1 if an installed plugin cannot be used.
    """
    from llmperf.running.doctor import examine

    complaints = examine()
    if as_json:
        print_json(complaints)
    for one in [] if as_json else complaints:
        mark = {"ok": "ok", "missing": "--", "broken": "!!"}[one.state]
        colour = {"ok": "green", "missing": "yellow", "broken": "red"}[one.state]
        click.echo(f"{click.style(mark, fg=colour)}  {one.subject}: {one.message}")
        if one.mend:
            click.echo(f"    mend: {one.mend}")
    if any(one.state == "broken" for one in complaints):
        ctx.exit(1)
