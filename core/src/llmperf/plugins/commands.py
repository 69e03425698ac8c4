"""Commands that installed packages add to `llmperf`, through the entry-point group `llmperf.command.v1`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING

from llmperf.errors import PluginError, PluginImportError
from llmperf.plugins.discovery import PROJECT, distribution_name

if TYPE_CHECKING:
    import click

GROUP = f"{PROJECT}.command.v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagedCommand:
    """A command as the metadata of an installed package announces it; nothing is imported."""

    name: str
    """The word after `llmperf`."""
    module: str
    attribute: str
    """The `click.Command` in the module."""
    distributions: tuple[str, ...]
    """Every package that announces this name; a name of several packages cannot be used."""

    def load(self) -> click.Command:
        """Import the command.

        Raises PluginError if several packages claim the name or the object is not a click command, PluginImportError if
        the module cannot be imported.
        """
        import click

        if len(self.distributions) > 1:
            raise PluginError(f"command {self.name!r} is claimed by {' and '.join(self.distributions)}; uninstall one")
        owner = f"command {self.name!r} ({self.distributions[0]})"
        try:
            command = getattr(import_module(self.module), self.attribute)
        except Exception as error:
            raise PluginImportError(f"{owner}: cannot import {self.module}:{self.attribute}: {error!r}") from error
        if not isinstance(command, click.Command):
            found = type(command).__name__
            raise PluginError(f"{owner}: {self.module}:{self.attribute}: expected a click.Command, found {found}")
        return command

    def help_line(self) -> str:
        """The first line of the module's docstring, read from its source, or the package's name if there is none."""
        import ast
        from importlib.util import find_spec

        top, *inner = self.module.split(".")
        try:
            spec = find_spec(top)
            assert spec is not None
            assert spec.origin is not None
            origin = Path(spec.origin)
            source = origin.parent.joinpath(*inner).with_suffix(".py") if inner else origin
            docstring = ast.get_docstring(ast.parse(source.read_bytes())) or ""
        except (AssertionError, ImportError, OSError, SyntaxError, ValueError):
            docstring = ""
        line = docstring.partition("\n")[0]
        return line if line.isprintable() and line else f"From {' and '.join(self.distributions)}."


def packaged_commands(without: Collection[str] = ()) -> dict[str, PackagedCommand]:
    """The announced commands by name, in alphabetical order, except those whose names are in `without`."""
    commands: dict[str, PackagedCommand] = {}
    for distribution in metadata.distributions():
        if GROUP not in (distribution.read_text("entry_points.txt") or ""):
            continue
        for entry in distribution.entry_points.select(group=GROUP):
            if entry.name in without:
                continue
            before = commands[entry.name].distributions if entry.name in commands else ()
            commands[entry.name] = PackagedCommand(
                name=entry.name,
                module=entry.module,
                attribute=entry.attr or "command",
                distributions=tuple(sorted({*before, distribution_name(distribution)})),
            )
    return dict(sorted(commands.items()))
