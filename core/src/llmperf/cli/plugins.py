"""`llmperf plugins`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from llmperf.cli.output import json_option, print_json

if TYPE_CHECKING:
    from llmperf.plugins.discovery import Found

EXAMPLES = """\b
Examples:
  llmperf plugins
  llmperf plugins --json
"""


@click.command("plugins", epilog=EXAMPLES)
@json_option
def command(as_json: bool) -> None:
    """List the installed plugins; a broken one is shown with its reason."""
    from llmperf.plugins.discovery import discover

    found = discover()
    rows = [_state(one, found) for one in found]
    if as_json:
        print_json(rows)
        return
    widths = [max(len(str(row[key])) for row in [*rows, {key: key for key in COLUMNS}]) for key in COLUMNS]
    for row in [
        {key: key for key in COLUMNS},
        {key: "-" * width for key, width in zip(COLUMNS, widths, strict=True)},
        *rows,
    ]:
        click.echo("  ".join(str(row[key]).ljust(width) for key, width in zip(COLUMNS, widths, strict=True)).rstrip())


COLUMNS = ("role", "name", "distribution", "version", "state")


def _state(one: Found, among: list[Found]) -> dict[str, str]:
    from llmperf.errors import PluginError
    from llmperf.plugins.discovery import find
    from llmperf.plugins.loading import Plugins
    from llmperf.plugins.requirements import unmet_requirements

    try:
        find(one.role, one.name, among)
        if unmet_requirements(one.distribution):
            from llmperf.plugins.mending import unmet_problem

            raise PluginError(str(unmet_problem(one)))
        Plugins([one])
        state = "ok"
    except PluginError as error:
        state = f"broken: {error}"
    return {
        "role": one.role,
        "name": one.name,
        "distribution": one.distribution,
        "version": one.version,
        "state": state,
    }
