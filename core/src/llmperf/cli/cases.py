"""`llmperf cases`."""

from __future__ import annotations

import click

from llmperf.cli.output import json_option, print_json, print_table, say_left_out

EXAMPLES = """\b
Examples:
  llmperf cases
  llmperf cases --json
"""


@click.command("cases", epilog=EXAMPLES)
@json_option
def command(as_json: bool) -> None:
    """List the cases of the core and of the installed plugins."""
    from llmperf.cases.library import whole_library

    shelf = whole_library()
    cases = shelf.readable("cases", shelf.case)
    say_left_out(shelf.left_out)
    if as_json:
        print_json(cases)
        return
    print_table(
        ["case", "model", "framework", "scale", "seq_len", "global batch", "precision", "title"],
        [
            (
                case.name,
                case.contract.model,
                case.tuning.framework,
                f"{case.tuning.nodes}x{case.tuning.devices}",
                case.contract.seq_len,
                case.contract.global_batch,
                case.contract.precision,
                case.title,
            )
            for case in cases
        ],
    )
