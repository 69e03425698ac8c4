"""Check what each plugin lacks on this machine, and show the command that installs it."""

from __future__ import annotations

from typing import Any

import click
import llmperf
from llmperf.errors import UserError
from llmperf.types import NodeRequest


def _examine_nodes(called: Any, hosts: str | None, nodes: int | None, as_json: bool) -> int:
    """Have the nodes of a launcher printed and checked; 1 if there is a problem."""
    from pathlib import Path

    from llmperf.planning import open_launcher, vendor_chooser

    config = llmperf.user_config(Path.cwd())
    tables, usual, given = config.tables, config.tables.default, called.values
    names = config.host_names(hosts) if hosts else ()
    count = nodes or len(names)
    if not count:
        raise UserError("--nodes: expected the number of nodes, or --hosts with their names")
    vendor, python = given["vendor"] or usual.vendor, given["python"] or usual.environment
    launcher = open_launcher(given["launcher"], vendor)
    options = tables.launchers.get(launcher.name, {})
    try:
        remote = launcher.remote(None if python is None else str(config.python(python)[0]))
        offered = launcher.nodes(NodeRequest(nodes=count, devices=None, hosts=names, options=options))
        interface = given["interface"] or usual.interface
        return remote.examine(offered, vendor, interface, vendor_chooser(vendor), called.checks, as_json)
    finally:
        launcher.close()


EXAMPLES = """\b
Examples:
  llmperf doctor
  llmperf doctor --launcher ssh --hosts node1,node2
  llmperf doctor --launcher ssh --hosts node1,node2 --interface ib0 --json
"""


@click.command("doctor", cls=llmperf.OpenCommand, epilog=EXAMPLES)
@click.option("--launcher", metavar="L", type=llmperf.Utf8(), shell_complete=llmperf.launcher_names,
              help="Check the nodes that this launcher reaches.")  # fmt: skip
@click.option("--hosts", metavar="A,B", type=llmperf.Utf8(),
              help="Nodes for the launcher; also names from llmperf.toml.")  # fmt: skip
@click.option("--nodes", metavar="N", type=click.IntRange(min=1), help="Number of nodes; all of --hosts by default.")
@click.option("--vendor", metavar="V", type=llmperf.Utf8(), shell_complete=llmperf.plugin_names,
              help="Whose devices; the best on the nodes by default.")  # fmt: skip
@click.option("--interface", metavar="NAME", type=llmperf.Utf8(), help="Network interface of the nodes.")
@click.option("--python", metavar="PATH", type=llmperf.Utf8(), help="Python of the ranks, as for llmperf run.")
@llmperf.json_option
@click.pass_context
def command(ctx: click.Context, /, as_json: bool, **options: Any) -> None:
    """Check what each plugin lacks on this machine, and show the command that installs it.

    With --launcher, check its nodes instead: reports, differences and, by llmperf-screening, ports and short
    measurements of each node against the others. Exits with 1 if an installed plugin or a node cannot be used, or a
    node is slow.
    """
    if options["launcher"] is not None:
        ctx.exit(_examine_nodes(ctx.obj, options["hosts"], options["nodes"], as_json))
    named = [name for name in ("hosts", "nodes", "vendor", "interface", "python") if options[name] is not None]
    if named:
        raise click.UsageError(f"--{named[0]} needs --launcher.")

    from llmperf_inspect.checks import examine

    checks = examine()
    if as_json:
        llmperf.print_json(checks)
    for check in [] if as_json else checks:
        mark = {"ok": "ok", "missing": "--", "broken": "!!"}[check.state]
        llmperf.print_text(f"{llmperf.painted(check.state, mark)}  {check.subject}: {check.message}")
        if check.mend:
            click.echo(f"    mend: {check.mend}")
    if any(check.state == "broken" for check in checks):
        ctx.exit(1)
