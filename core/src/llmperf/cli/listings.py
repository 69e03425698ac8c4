"""The commands that list what is installed: cases, plugins, devices, and what is missing (`doctor`).

Each command's function has the command's name; `llmperf.cli.main` finds it by that name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from llmperf.cli.colour import painted
from llmperf.cli.completion import case_names, launcher_names, plugin_names
from llmperf.cli.open_command import CalledCommand, OpenCommand
from llmperf.cli.options import Utf8
from llmperf.cli.output import gib, json_option, print_json, print_table, print_text, say_left_out
from llmperf.errors import unknown
from llmperf.files.text import printable
from llmperf.plugins.installed import distribution

if TYPE_CHECKING:
    from llmperf.plugins.discovery import Found
    from llmperf.plugins.loading import Plugins

SETTING = r"^\| `(framework\.\w+)` \| (.*) \|$"
"""A row of a README."""
COLUMNS = ("role", "name", "distribution", "version", "state")
"""Columns of the table of plugins."""


def examples(command: str) -> str:
    """The end of a listing's help text."""
    return f"\b\nExamples:\n  llmperf {command}\n  llmperf {command} --json\n"


CASES_EXAMPLES = """\b
Examples:
  llmperf cases
  llmperf cases default          one case: contract, tuning, and every path of --set with its value
  llmperf cases default --json
"""


@click.command("cases", epilog=CASES_EXAMPLES)
@click.argument("name", metavar="[NAME]", type=Utf8(), required=False, shell_complete=case_names)
@json_option
def cases(name: str | None, as_json: bool) -> None:
    """List the cases of the core and of the installed plugins, or show one with every setting that can be changed."""
    from llmperf.cases.library import whole_library

    shelf = whole_library()
    if name is not None:
        case = shelf.case(name)
        from llmperf.cli.case_text import print_case, settings_of
        from llmperf.files.json_files import builtins

        if as_json:
            print_json({**builtins(case), "settings": settings_of(case)})
        else:
            print_case(case)
        return
    listed = shelf.readable("cases", shelf.case)
    say_left_out(shelf.left_out)
    if as_json:
        print_json(listed)
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
            for case in listed
        ],
    )


PLUGINS_EXAMPLES = """\b
Examples:
  llmperf plugins
  llmperf plugins zero           one plugin, with the settings of a framework and their defaults
  llmperf plugins --json
"""


@click.command("plugins", epilog=PLUGINS_EXAMPLES)
@click.argument("name", metavar="[NAME]", type=Utf8(), required=False)
@click.option("--launchers", is_flag=True, help="List the launchers of all plugins, which are imported for that.")
@json_option
def plugins(name: str | None, launchers: bool, as_json: bool) -> None:
    """List the installed plugins and the commands of packages, or show one; a broken one is shown with its reason."""
    from llmperf.plugins.commands import packaged_commands
    from llmperf.plugins.discovery import discover
    from llmperf.plugins.installed import version
    from llmperf.plugins.loading import Plugins

    installed, plugins = discover(), Plugins()
    known: list[tuple[str, ...]] = [
        (found.role, found.name, found.distribution, found.version, _state(found, installed, plugins))
        for found in installed
    ]
    if launchers:
        known = _launchers([found for found, row in zip(installed, known, strict=True) if row[-1] == "ok"])
    for command in () if launchers else packaged_commands().values():
        problem = command.problem()
        state = "ok" if problem is None else f"broken: {problem}"
        known += [
            ("command", command.name, package, version(package) or "", state) for package in command.distributions
        ]
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in known]
    settings: list[tuple[str, str]] = []
    if name is not None:
        if not any(row["name"] == name for row in rows):
            raise unknown("", "plugin", name, [str(row["name"]) for row in rows])
        rows = [row for row in rows if row["name"] == name]
        frameworks = [row["distribution"] for row in rows if row["role"] == "framework"]
        settings = [setting for package in frameworks for setting in _settings(package)]
    if as_json:
        print_json(rows if name is None else {"plugins": rows, "settings": dict(settings)})
        return
    table = [COLUMNS, *(tuple(row.values()) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in (table[0], ["-" * width for width in widths], *table[1:]):
        click.echo("  ".join(map(str.ljust, line, widths)).rstrip())
    for path, meaning in settings:
        print_text(f"\n{click.style(path, bold=True)}\n  {meaning}")


def _settings(package: str) -> list[tuple[str, str]]:
    """The settings of a framework with their defaults, from the table of its README, which its metadata has."""
    found = distribution(package)
    text = (found.read_text("METADATA") or "") if found else ""
    return [(path, printable(meaning)) for path, meaning in re.findall(SETTING, text, re.MULTILINE)]


def _launchers(working: list[Found]) -> list[tuple[str, ...]]:
    """Rows of the launchers of the core and of the plugins that work."""
    from llmperf.errors import PluginError
    from llmperf.planning.launchers import launchers_of
    from llmperf.plugins.installed import version

    launchers: list[tuple[str, ...]] = [
        ("launcher", name, "llmperf-core", version("llmperf-core") or "", "ok") for name in launchers_of(None)
    ]
    for found in working:
        try:
            names, state = launchers_of(found), "ok"
        except PluginError as error:
            names, state = [found.name], f"broken: {error}"
        launchers += [("launcher", name, found.distribution, found.version, state) for name in names]
    return launchers


def _state(found: Found, installed: list[Found], plugins: Plugins) -> str:
    from llmperf.errors import PluginError
    from llmperf.plugins.discovery import find
    from llmperf.plugins.own_packages import of_this_project
    from llmperf.plugins.requirements import unmet_requirements

    try:
        find(found.role, found.name, installed)
        if unmet_requirements(found.distribution):
            from llmperf.plugins.mending import unmet_problem

            return f"broken: {unmet_problem(found)}"
        plugins.check(found)
    except PluginError as error:
        return f"broken: {error}"
    if of_this_project(found):
        return "ok"
    from llmperf.plugins.hook_names import missing_name

    problem = missing_name(found)
    return "ok" if problem is None else f"broken: {problem}"


@click.command("devices", epilog=examples("devices"))
@json_option
@click.pass_context
def devices(ctx: click.Context, as_json: bool) -> None:
    """List the devices that the installed vendor plugins see here, and why a plugin sees none.

    Exits with 2 if a vendor plugin fails, after the devices of the others.
    """
    from llmperf.errors import UserError
    from llmperf.planning.vendors import probe_all, skipped_entries

    probes, broken = probe_all()
    skipped = skipped_entries()
    if as_json:
        print_json({"probes": probes, "broken": broken, "skipped": skipped})
        ctx.exit(UserError.exit_code if broken else 0)
    print_table(
        ["vendor", "index", "model", "memory", "precisions", "driver"],
        [
            (
                probe.vendor,
                device.index,
                device.model + " (simulated)" * probe.simulated,
                gib(device.memory_bytes),
                ", ".join(probe.offers.precisions),
                probe.driver,
            )
            for probe in probes
            for device in probe.devices
        ],
    )
    for probe in probes:
        for problem in probe.problems:
            print_text(f"{probe.vendor}: {problem}")
    for line in broken:
        click.echo(line)
    for vendor, lines in skipped.items():
        for line in lines:
            print_text(f"{vendor}: {line}")
    ctx.exit(UserError.exit_code if broken else 0)


def _examine_nodes(called: CalledCommand, hosts: str | None, nodes: int | None, as_json: bool) -> int:
    """Have the nodes of a launcher printed and checked; 1 if there is a problem."""
    from pathlib import Path

    from llmperf.errors import UserError
    from llmperf.planning.launchers import installed_launcher, remote_nodes
    from llmperf.planning.nodes import vendor_chooser
    from llmperf.planning.user_config import user_config
    from llmperf.types.launching import NodeRequest

    config = user_config(Path.cwd())
    tables, usual, given = config.tables, config.tables.default, called.values
    names = config.host_names(hosts) if hosts else ()
    count = nodes or len(names)
    if not count:
        raise UserError("--nodes: expected the number of nodes, or --hosts with their names")
    vendor, python = given["vendor"] or usual.vendor, given["python"] or usual.environment
    launcher = installed_launcher(given["launcher"], vendor)
    options = tables.launchers.get(launcher.name, {})
    try:
        remote = remote_nodes(launcher, None if python is None else str(config.python(python)[0]))
        offered = launcher.nodes(NodeRequest(nodes=count, devices=None, hosts=names, options=options))
        interface = given["interface"] or usual.interface
        return remote.examine(offered, vendor, interface, vendor_chooser(vendor), called.checks, as_json)
    finally:
        launcher.close()


DOCTOR_EXAMPLES = """\b
Examples:
  llmperf doctor
  llmperf doctor --launcher ssh --hosts node1,node2
  llmperf doctor --launcher ssh --hosts node1,node2 --interface ib0 --json
"""


@click.command("doctor", cls=OpenCommand, epilog=DOCTOR_EXAMPLES)
@click.option("--launcher", metavar="L", type=Utf8(), shell_complete=launcher_names,
              help="Check the nodes that this launcher reaches.")  # fmt: skip
@click.option("--hosts", metavar="A,B", type=Utf8(), help="Nodes for the launcher; also names from llmperf.toml.")
@click.option("--nodes", metavar="N", type=click.IntRange(min=1), help="Number of nodes; all of --hosts by default.")
@click.option("--vendor", metavar="V", type=Utf8(), shell_complete=plugin_names,
              help="Whose devices; the best on the nodes by default.")  # fmt: skip
@click.option("--interface", metavar="NAME", type=Utf8(), help="Network interface of the nodes.")
@click.option("--python", metavar="PATH", type=Utf8(), help="Python of the ranks, as for llmperf run.")
@json_option
@click.pass_obj
def doctor(called: CalledCommand, /, as_json: bool, **options: Any) -> None:
    """Check what each plugin lacks on this machine, and show the command that installs it.

    With --launcher, check its nodes instead: reports, differences and, by llmperf-screening, ports and short
    measurements of each node against the others. Exits with 1 if an installed plugin or a node cannot be used, or a
    node is slow.
    """
    if options["launcher"] is not None:
        called.ctx.exit(_examine_nodes(called, options["hosts"], options["nodes"], as_json))
    named = [name for name in ("hosts", "nodes", "vendor", "interface", "python") if options[name] is not None]
    if named:
        raise click.UsageError(f"--{named[0]} needs --launcher.")
    from llmperf.running.doctor import examine

    checks = examine()
    if as_json:
        print_json(checks)
    for check in [] if as_json else checks:
        mark = {"ok": "ok", "missing": "--", "broken": "!!"}[check.state]
        print_text(f"{painted(check.state, mark)}  {check.subject}: {check.message}")
        if check.mend:
            click.echo(f"    mend: {check.mend}")
    if any(check.state == "broken" for check in checks):
        called.ctx.exit(1)
