"""Make a plugin package for a vendor or a framework, to go on from."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from llmperf_testing.scaffold.render import Kind

EXAMPLES = """\b
Examples:
  llmperf new vendor acme
  llmperf new framework my-loop --out ~/src
"""


@click.command("new", epilog=EXAMPLES)
@click.argument("kind", type=click.Choice(["vendor", "framework"]))
@click.argument("name")
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path), default=Path("."), show_default=True,
              help="Where the folder llmperf-NAME is made.")  # fmt: skip
def command(kind: Kind, name: str, out: Path) -> None:
    """Make a complete plugin package llmperf-NAME, which can be installed, tested and run at once.

    A new vendor plays its device on the host CPU until it is edited, and results say so; a new framework trains with a
    short loop of its own. Nothing is overwritten.
    """
    from importlib.metadata import version

    from llmperf.plugins.discovery import discover

    from llmperf_testing.scaffold.names import package_name
    from llmperf_testing.scaffold.render import rendered, write_package

    chosen = package_name(name, discover())
    folder = out.expanduser() / chosen.distribution
    files = rendered(kind, chosen, version("llmperf-core"))
    write_package(folder, files)
    click.echo(f"{folder}: {len(files)} files; what is next:\n")
    for line, meaning in _next(kind, chosen.plugin, folder):
        click.echo(f"  {line:<{max(44, len(line))}}  # {meaning}")
    click.echo(f"\nThen {folder / 'README.md'} says what to edit, in order.")


def _next(kind: str, plugin: str, folder: Path) -> list[tuple[str, str]]:
    where = shlex.quote(str(folder if folder.is_absolute() else f"./{folder}"))
    played = ", on a device that is only played" if kind == "vendor" else ""
    return [
        (f"uv pip install -e {where}", "beside llmperf"),
        (f"llmperf run --{kind} {plugin}", f"the default case{played}"),
        (f"llmperf check-plugin {plugin}", "whether it keeps its contract"),
    ]
