"""Create a plugin package for a vendor or a framework."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click
from llmperf import json_option, print_json

EXAMPLES = """\b
Examples:
  llmperf new vendor acme
  llmperf new framework my-loop --out ~/src
  llmperf new framework my-script --script
"""


@click.command("new", epilog=EXAMPLES)
@click.argument("kind", type=click.Choice(["vendor", "framework"]))
@click.argument("name")
@click.option("--script", is_flag=True, help="A framework that runs an external training script and reads its output.")
@click.option("-o", "--out", metavar="DIR", type=click.Path(path_type=Path), default=Path("."), show_default=True,
              help="Where the folder llmperf-NAME is created.")  # fmt: skip
@json_option
def command(kind: Literal["vendor", "framework"], name: str, script: bool, out: Path, as_json: bool) -> None:
    """Create a complete plugin package llmperf-NAME, which can be installed, tested and run at once.

    A new vendor simulates its device on the host CPU until it is edited, and results say so. A new framework trains
    with a short loop of its own, or with --script by a small script whose output it reads. Existing files are never
    overwritten.
    """
    from importlib.metadata import version

    from llmperf.plugins.discovery import discover

    from llmperf_testing.scaffold import package_name, rendered, write_package

    if script and kind == "vendor":
        raise click.UsageError("--script is for frameworks: llmperf new framework NAME --script")
    chosen = package_name(name, discover())
    folder = out.expanduser() / chosen.distribution
    files = rendered("script" if script else kind, chosen, version("llmperf-core"))
    write_package(folder, files)
    if as_json:
        steps = [{"command": line, "meaning": meaning} for line, meaning in _next(kind, chosen.plugin, folder)]
        print_json({"folder": str(folder), "files": sorted(map(str, files)), "next": steps})
        return
    click.echo(f"{folder}: {len(files)} files; next steps:\n")
    for line, meaning in _next(kind, chosen.plugin, folder):
        click.echo(f"  {line:<{max(44, len(line))}}  # {meaning}")
    click.echo(f"\nThen {folder / 'README.md'} says what to edit, in order.")


def _next(kind: str, plugin: str, folder: Path) -> list[tuple[str, str]]:
    from llmperf.plugins.mending import pip_command

    where = str(folder if folder.is_absolute() else f"./{folder}")
    simulated = ", on a simulated device" if kind == "vendor" else ""
    return [
        (pip_command("install", "-e", where), "beside llmperf"),
        (f"llmperf run --{kind} {plugin}", f"the default case{simulated}"),
        (f"llmperf check-plugin {plugin}", "whether it keeps its contract"),
    ]
