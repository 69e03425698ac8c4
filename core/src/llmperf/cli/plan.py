"""`llmperf plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from llmperf.cli.completion import device_names
from llmperf.cli.open_command import OpenCommand
from llmperf.cli.output import print_json, print_text
from llmperf.cli.request import request, request_options, say_what_was_left_out

if TYPE_CHECKING:
    from llmperf.planning.states import Outcome

EXAMPLES = """\b
Examples:
  llmperf plan
  llmperf plan default --devices 1 --set micro_batch=4
  llmperf plan llama2_7b_pretrain_zero --on A100-SXM4-80GB:1x8
  llmperf plan baichuan2_13b_pretrain_zero --on H800:2x8 --json
"""


@click.command("plan", cls=OpenCommand, epilog=EXAMPLES)
@request_options
@click.option("--on", metavar="MODEL:NxD", shell_complete=device_names,
              help="Plan for a machine that is not here, such as A100-SXM4-40GB:1x8.")  # fmt: skip
@click.pass_context
def command(ctx: click.Context, /, on: str | None, **options: Any) -> None:
    """Show what would run: layout, batch arithmetic, FLOPs, launch. Nothing is started.

    Exits with 2 if something does not fit together.
    """
    from llmperf.planning.build import plan_only
    from llmperf.planning.ready import ready
    from llmperf.running.suggestions import with_suggestions

    asked = request(options, on)
    ctx.exit(show(with_suggestions(ready(plan_only(*asked)), asked), options["as_json"]))


def show(outcome: Outcome, as_json: bool) -> int:
    """Print a plan; exit code 2 if something does not fit together."""
    from llmperf.cli.plan_text import plan_document, plan_text
    from llmperf.planning.states import Planned

    say_what_was_left_out(outcome)
    if as_json:
        print_json(plan_document(outcome))
    else:
        print_text(plan_text(outcome), nl=False)
    return 0 if isinstance(outcome, Planned) else 2
