"""Commands that installed packages add to `llmperf`, through the entry-point group `llmperf.command.v1`."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from llmperf.errors import Interrupted, PluginError, PluginImportError, Terminated
from llmperf.plugins.installed import announced

if TYPE_CHECKING:
    import click

GROUP = "llmperf.command.v1"
SOURCES = (".py", "/__init__.py")

COMMANDS = ("run", "plan", "validate", "report")
"""The commands of core, whose names no package can take, in the order in which a user meets them."""


class PackagedCommand(NamedTuple):
    """A command as the metadata of an installed package announces it; nothing is imported."""

    name: str
    """The word after `llmperf`."""
    module: str
    attribute: str
    """The `click.Command` in the module."""
    distributions: tuple[str, ...]
    """Every package that announces this name. If there are several, the command cannot be used."""

    def load(self) -> click.Command:
        """Import the command; PluginError if several packages claim the name or the object is not a click command."""
        import click

        from llmperf.plugins.asking import asking
        from llmperf.plugins.faults import named

        if len(self.distributions) > 1:
            raise PluginError(f"command {self.name!r} is {self._claim()}")
        owner = f"command {self.name!r} ({self.distributions[0]})"
        try:
            with asking(owner, "import"):
                command = getattr(import_module(self.module), self.attribute)
        except (Interrupted, Terminated):
            raise
        except BaseException as error:  # also SystemExit, which would end the command without a message
            raise PluginImportError(f"{owner}: cannot import {self.module}:{self.attribute}: {named(error)}") from error
        if not isinstance(command, click.Command):
            found = type(command).__name__
            raise PluginError(f"{owner}: {self.module}:{self.attribute}: expected a click.Command, found {found}")
        return command

    def problem(self) -> str | None:
        """The reason why the command cannot be used; None if it can."""
        if self.name in COMMANDS:
            return f"not used: `llmperf {self.name}` is a command of llmperf-core"
        return self._claim() if len(self.distributions) > 1 else None

    def _claim(self) -> str:
        return f"claimed by {' and '.join(self.distributions)}; uninstall one"

    def help_line(self) -> str:
        """The first line of the module's docstring, or the names of the packages that claim the command."""
        if len(self.distributions) > 1:
            return f"Cannot be used: {self._claim()}."
        places = (f"{folder}/{self.module.replace('.', '/')}{end}" for folder in sys.path for end in SOURCES)
        try:
            with open(next(filter(os.path.isfile, places), ""), encoding="utf-8") as file:
                line = file.readline().strip()
        except (OSError, ValueError):
            line = ""
        line = line[3:].removesuffix(line[:3]) if line.startswith(('"""', "'''")) else ""
        return line if line.isprintable() and line else f"From {self.distributions[0]}."


def packaged_commands(without: Collection[str] = ()) -> dict[str, PackagedCommand]:
    """The announced commands by name, in alphabetical order, except those whose names are in `without`."""
    commands: dict[str, PackagedCommand] = {}
    for distribution in announced():
        for entry in distribution.entry_points:
            if entry.group != GROUP or entry.name in without:
                continue
            before = commands[entry.name].distributions if entry.name in commands else ()
            commands[entry.name] = PackagedCommand(
                name=entry.name,
                module=entry.module,
                attribute=entry.attribute or "command",
                distributions=tuple(sorted({*before, distribution.name})),
            )
    return dict(sorted(commands.items()))
