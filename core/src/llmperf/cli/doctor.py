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
    """Check what each plugin lacks on this machine, and show the command that installs it.

    Exits with 1 if an installed plugin cannot be used.
    """
    from llmperf.running.doctor import examine

    checks = examine()
    if as_json:
        print_json(checks)
    for check in [] if as_json else checks:
        mark = {"ok": "ok", "missing": "--", "broken": "!!"}[check.state]
        colour = {"ok": "green", "missing": "yellow", "broken": "red"}[check.state]
        click.echo(f"{click.style(mark, fg=colour)}  {check.subject}: {check.message}")
        if check.mend:
            click.echo(f"    mend: {check.mend}")
    if any(check.state == "broken" for check in checks):
        ctx.exit(1)
