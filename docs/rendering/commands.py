"""The reference of commands: what `--help` says."""

from __future__ import annotations

from collections.abc import Iterator

import click
from llmperf.cli.main import cli

COLUMNS = 80


def commands_page() -> str:
    """Each command with its help."""
    parent = click.Context(cli, info_name="llmperf")
    parts = ["# Commands", "What `llmperf COMMAND --help` says."]
    for name in cli.list_commands(parent):
        command = cli.get_command(parent, name)
        if command is not None and not command.hidden:
            parts += section(name, command, parent, "##")
    return "\n\n".join(parts) + "\n"


def section(name: str, command: click.Command, parent: click.Context, heading: str) -> Iterator[str]:
    """The help of a command, and of the commands of a group."""
    context = click.Context(command, info_name=name, parent=parent, terminal_width=COLUMNS, max_content_width=COLUMNS)
    yield f"{heading} {name}"
    yield f"```text\n{click.unstyle(command.get_help(context)).strip()}\n```"
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            yield from section(inner, command.commands[inner], context, f"{heading}#")
