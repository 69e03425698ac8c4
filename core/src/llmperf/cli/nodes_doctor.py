"""`llmperf doctor --launcher L --hosts A,B`: the nodes of a launcher, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llmperf.cli.colour import painted
from llmperf.cli.output import gib, print_json, print_table
from llmperf.files.text import printable

if TYPE_CHECKING:
    from llmperf.running.node_checks import CheckedNode, Checks, NodesReport


def examine_nodes(options: dict[str, Any], checks: Checks) -> int:
    """Report on the nodes, have them checked, and print what was found; 1 if there is a problem."""
    from llmperf.errors import UserError
    from llmperf.files.json_files import builtins
    from llmperf.planning.launchers import installed_launcher
    from llmperf.planning.user_config import user_config
    from llmperf.running.node_checks import reported_nodes
    from llmperf.types.launching import NodeRequest

    config = user_config(Path.cwd())
    tables = config.tables
    hosts = config.host_names(options["hosts"]) if options["hosts"] else ()
    count = options["nodes"] or len(hosts)
    if not count:
        raise UserError("--nodes: expected the number of nodes, or --hosts with their names")
    name, vendor = options["launcher"], options["vendor"] or tables.default.vendor
    python = options["python"] or tables.default.environment
    path = None if python is None else str(config.python(python)[0])
    launcher = installed_launcher(name, vendor)
    wanted = NodeRequest(nodes=count, devices=None, hosts=hosts, options=tables.launchers.get(name, {}))
    try:
        nodes = launcher.nodes(wanted)
        interface = options["interface"] or tables.default.interface
        report, found = reported_nodes(launcher, nodes, path, vendor, interface, checks)
    finally:
        launcher.close()
    if options["as_json"]:
        print_json({**builtins(report), **{key: value for one in found for key, value in one.document.items()}})
    else:
        for line in _shown(report):
            click.echo(line)
        for one in found:
            one.show()
    return 1 if report.sick or any(one.problems for one in found) else 0


def _shown(checked: NodesReport) -> Iterator[str]:
    """The lines below the table of nodes, which is printed first."""
    reached = [node for node in checked.nodes if node.failure is None]
    if reached:
        columns = ["node", "address", "interface", "devices", "memory free", "load", "clock"]
        print_table(columns, [_row(node) for node in reached])
        yield ""
    for node in checked.nodes:
        if node.failure is not None:
            yield f"{painted('error')}: {printable(node.failure, ' ')}"
    if checked.vendor is None and reached:
        yield f"{painted('error')}: no vendor plugin sees a device on these nodes"
    for difference in checked.differences:
        word = painted("error" if difference.refuses else "warning")
        yield f"{word}: nodes differ in {printable(str(difference), ' ')}"
    for concern in checked.concerns:
        yield f"{painted('warning')}: {printable(concern, ' ')}"


def _row(node: CheckedNode) -> list[Any]:
    host = node.report.host if node.report else None
    return [
        node.host,
        node.address,
        node.interface.name if node.interface else None,
        node.devices,
        gib(host.memory_free_bytes) if host else None,
        f"{host.load:.1f}" if host and host.load is not None else None,
        f"{1e3 * node.clock.offset_seconds:+.1f} ± {1e3 * node.clock.error_seconds:.1f} ms" if node.clock else None,
    ]
