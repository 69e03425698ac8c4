"""The commands that list what is installed: cases, plugins, devices, and what is missing (`doctor`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from llmperf.cli.colour import painted
from llmperf.cli.completion import case_names, launcher_names, plugin_names
from llmperf.cli.open_command import CalledCommand, OpenCommand
from llmperf.cli.options import Utf8
from llmperf.cli.output import (
    headings_option,
    json_option,
    page_width,
    print_facts,
    print_json,
    print_table,
    print_text,
    say_left_out,
)
from llmperf.errors import unknown
from llmperf.files.text import printable
from llmperf.plugins.installed import distribution

if TYPE_CHECKING:
    from llmperf.plugins.discovery import Found
    from llmperf.plugins.loading import Plugins
    from llmperf.types.spec import Case

SETTING = r"^\| `(framework\.\w+)` \| (.*) \|$"
"""A row of a README."""
COLUMNS = ("role", "name", "distribution", "version", "state")
"""Columns of the table of plugins."""


CASES_EXAMPLES = """\b
Examples:
  llmperf cases
  llmperf cases default          one case: contract, tuning, and every path of --set with its value
  llmperf cases default --json
"""


@click.command("cases", epilog=CASES_EXAMPLES)
@click.argument("name", metavar="[NAME]", type=Utf8(), required=False, shell_complete=case_names)
@headings_option
@json_option
def cases(name: str | None, as_json: bool) -> None:
    """List the cases of the core and of the installed plugins, or show one with every setting that can be changed."""
    from llmperf.cases.library import whole_library

    shelf = whole_library()
    if name is not None:
        case = shelf.case(name)
        settings = _settings_of(case)
        if as_json:
            from llmperf.files.json_files import builtins

            print_json({**builtins(case), "settings": settings})
        else:
            _print_case(case, settings)
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


PARTS = {
    "contract": "what is measured: a change makes the result a variant of the case",
    "tuning": "how it is run: free to change, and recorded",
    "data": "where the tokens are",
    "framework": "options of the framework plugin, which checks them",
}
"""The first part of each path of `--set`, and what it decides."""
WIDTH = 100
"""Columns of a description where no terminal gives a width."""


def _settings_of(case: Case) -> list[dict[str, Any]]:
    """Each path that can be set: its name for `--set`, its value in the case, and what it takes."""
    from llmperf.cases.settings import FREE, describe, full_path, known_paths

    settings = []
    for path, annotation in known_paths().items():
        rest = path.partition(".")[2]
        value: Any = case
        for name in path.split("."):  # None below a table that the case does not have, such as `contract.lora`
            value = getattr(value, name, None)
        short = rest if full_path(rest, path) == path else path  # `optimizer.lr`, unless that alone means another
        settings.append({"path": path, "set": short, "value": value, "takes": describe(annotation)})
    for name, value in case.framework.items():
        path = f"{FREE}{name}"
        settings.append({"path": path, "set": path, "value": value, "takes": "an option of the framework"})
    return settings


def _print_case(case: Case, settings: list[dict[str, Any]]) -> None:
    """One case: what it is, and every path of `--set` with its value as `--set` takes it."""
    from textwrap import wrap

    from llmperf.types.sheet import Column

    width = page_width() or WIDTH
    print_facts([("case", case.name), ("title", case.title), ("source", case.source)])
    click.echo("\n" + "\n".join(wrap(" ".join(case.description.split()), width) or ["-"]))

    def typed(value: Any) -> str:
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(f'"{item}"' if isinstance(item, str) else str(item) for item in value) + "]"
        return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)

    columns = [Column(title=title, importance=place, wraps=16) for place, title in enumerate(("value", "takes"), 2)]
    for part, meaning in PARTS.items():
        rows = [each for each in settings if each["path"].split(".")[0] == part]
        if rows:
            click.echo(f"\n{click.style(part, bold=True)}: {painted('context', meaning)}")
            cells = [(each["set"], typed(each["value"]), each["takes"]) for each in rows]
            print_table((Column(title="--set", importance=1), *columns), cells)
    click.echo(f"\nExample: llmperf run {case.name} --set steps={2 * case.contract.steps}")


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
    from llmperf.plugins.discovery import discover
    from llmperf.plugins.installed import DISABLE, version
    from llmperf.plugins.loading import Plugins
    from llmperf.plugins.packaged_commands import packaged_commands

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
    from llmperf.plugins.hook_names import missing_name
    from llmperf.plugins.requirements import unmet_requirements

    try:
        find(found.role, found.name, installed)
        if unmet_requirements(found.distribution):
            from llmperf.plugins.mending import unmet_problem

            return f"broken: {unmet_problem(found)}"
        plugins.check(found)
    except PluginError as error:
        return f"broken: {error}"
    problem = missing_name(found)
    return "ok" if problem is None else f"broken: {problem}"


@click.command("devices", epilog="\b\nExamples:\n  llmperf devices\n  llmperf devices --json\n")
@headings_option
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
                None if device.memory_bytes is None else f"{device.memory_bytes / 2**30:.2f} GiB",
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
