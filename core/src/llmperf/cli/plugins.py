"""`llmperf plugins`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from llmperf.cli.output import json_option, print_json

if TYPE_CHECKING:
    from llmperf.plugins.discovery import Found
    from llmperf.plugins.loading import Plugins

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
    from llmperf.plugins.loading import Plugins

    installed, plugins = discover(), Plugins()
    rows = [
        {
            "role": found.role,
            "name": found.name,
            "distribution": found.distribution,
            "version": found.version,
            "state": _state(found, installed, plugins),
        }
        for found in installed
    ]
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


def _state(found: Found, installed: list[Found], plugins: Plugins) -> str:
    from llmperf.errors import PluginError
    from llmperf.plugins.discovery import find
    from llmperf.plugins.requirements import unmet_requirements

    try:
        find(found.role, found.name, installed)
        if unmet_requirements(found.distribution):
            from llmperf.plugins.mending import unmet_problem

            return f"broken: {unmet_problem(found)}"
        plugins.check(found)
    except PluginError as error:
        return f"broken: {error}"
    return "ok"
