"""List the installed plugins and the commands of packages, or show one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click
from llmperf import Utf8, json_option, print_json, print_text, printable
from llmperf.errors import PluginError, unknown
from llmperf.planning import distribution

if TYPE_CHECKING:
    from llmperf.planning import Found, Plugins

SETTING = r"^\| `(framework\.\w+)` \| (.*) \|$"
"""A row of a README."""
COLUMNS = ("role", "name", "distribution", "version", "state")
"""Columns of the table of plugins."""

EXAMPLES = """\b
Examples:
  llmperf plugins
  llmperf plugins zero           one plugin, with the settings of a framework and their defaults
  llmperf plugins --json
"""


@click.command("plugins", epilog=EXAMPLES)
@click.argument("name", metavar="[NAME]", type=Utf8(), required=False)
@click.option("--launchers", is_flag=True, help="List the launchers of all plugins, which are imported for that.")
@json_option
def command(name: str | None, launchers: bool, as_json: bool) -> None:
    """List the installed plugins and the commands of packages, or show one; a broken one is shown with its reason."""
    from llmperf import packaged_commands
    from llmperf.planning import DISABLE, Plugins, discover, version

    installed, plugins = discover(), Plugins()
    known: list[tuple[str, ...]] = [
        (found.role, found.name, found.distribution, found.version, _state(found, installed, plugins))
        for found in installed
    ]
    if launchers:
        known = _launchers([found for found, row in zip(installed, known, strict=True) if row[-1] == "ok"])
    left_out = [(off.role, off.name, off.distribution, off.version, f"disabled by {DISABLE}") for off in discover(True)]
    known += [] if launchers else left_out
    for command in () if launchers else packaged_commands().values():
        state = "ok" if (problem := command.problem()) is None else f"broken: {problem}"
        known += [("command", command.name, owner, version(owner) or "", state) for owner in command.distributions]
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in known if name in (None, row[1])]
    settings: list[tuple[str, str]] = []
    if name is not None:
        if not rows:
            raise unknown("", "plugin", name, [row[1] for row in known])
        for package in (row["distribution"] for row in rows if row["role"] == "framework"):  # tables of its README
            found = distribution(package)
            text = (found.read_text("METADATA") or "") if found else ""
            settings += [(path, printable(meaning)) for path, meaning in re.findall(SETTING, text, re.MULTILINE)]
    if as_json:
        print_json(rows if name is None else {"plugins": rows, "settings": dict(settings)})
        return
    table = [COLUMNS, *(tuple(row.values()) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in (table[0], ["-" * width for width in widths], *table[1:]):
        click.echo("  ".join(map(str.ljust, line, widths)).rstrip())
    for path, meaning in settings:
        print_text(f"\n{click.style(path, bold=True)}\n  {meaning}")


def _launchers(working: list[Found]) -> list[tuple[str, ...]]:
    """Rows of the launcher of this machine and of those of the plugins that work."""
    from llmperf.planning import Plugins, version

    launchers: list[tuple[str, ...]] = [("launcher", "local", "llmperf-core", version("llmperf-core") or "", "ok")]
    for found in working:
        try:
            names = [str(launcher.name) for _, launcher in Plugins([found]).collect_items("llmperf_launchers")]
            state = "ok"
        except (PluginError, AttributeError) as error:
            names, state = [found.name], f"broken: {error}"
        launchers += [("launcher", name, found.distribution, found.version, state) for name in names]
    return launchers


def _state(found: Found, installed: list[Found], plugins: Plugins) -> str:
    from llmperf.planning import find, unmet_requirements

    from llmperf_inspect.used_names import missing_name

    try:
        find(found.role, found.name, installed)
        if unmet_requirements(found.distribution):
            from llmperf.planning import unmet_problem

            return f"broken: {unmet_problem(found)}"
        plugins.check(found)
    except PluginError as error:
        return f"broken: {error}"
    problem = missing_name(found)
    return "ok" if problem is None else f"broken: {problem}"
