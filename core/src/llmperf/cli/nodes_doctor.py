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
    from llmperf.running.node_checks import CheckedNode, NodesCheck
    from llmperf.screening.verdict import Measured, Verdict


def examine_nodes(options: dict[str, Any]) -> int:
    """Check the nodes and print what was found; 1 if a node cannot be used or is slow."""
    from llmperf.errors import UserError
    from llmperf.planning.launchers import installed_launcher
    from llmperf.planning.user_config import user_config
    from llmperf.running.node_checks import check_nodes
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
        checked = check_nodes(launcher, nodes, path, vendor, interface, options["screening"])
    finally:
        launcher.close()
    if options["as_json"]:
        print_json(checked)
    else:
        for line in _shown(checked):
            click.echo(line)
    return 1 if checked.sick else 0


def _shown(checked: NodesCheck) -> Iterator[str]:
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
    if checked.verdict is not None:
        yield from _screening(checked.verdict, any(node.failure is not None for node in checked.nodes))


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


def _screening(found: Verdict, others_failed: bool) -> Iterator[str]:
    yield ""
    if found.measured:
        print_table(
            ["node", "measured", "figure", "median of the others", "difference"],
            [_figures(item) for item in found.measured],
        )
        yield ""
    if found.path_mtu:
        yield f"path MTU: {', '.join(map(str, found.path_mtu))} bytes"
    for line in found.not_measured:
        yield f"not measured: {printable(line, ' ')}"
    for line in found.unreachable:
        yield f"{painted('error')}: {printable(line, ' ')}"
    for line in found.slow:
        yield f"{painted('warning')}: {printable(line, ' ')}"
    if not found.sick:
        which = "none of the other nodes" if others_failed else "no node"
        yield f"{which} stands out; screened in {found.seconds:.0f} s"


MAX_SHARE = 9.0
"""Larger differences are shown as a factor."""
PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def _figures(item: Measured) -> list[Any]:
    relative = None if item.relative is None else f"{_relative(item.relative)}{' !' if item.slow else ''}"
    return [item.host, item.what, _figure(item.value, item.unit), _figure(item.others, item.unit), relative]


def _relative(value: float) -> str:
    """Such as `-12 %` or `532 times`."""
    return f"{100 * value:+.0f} %" if value < MAX_SHARE else f"{1 + value:,.0f} times"


def _figure(value: float | None, unit: str) -> str | None:
    if value is None:
        return None
    if unit == "s":
        return f"{1e3 * value:.3f} ms"
    size, prefix = next(((size, prefix) for size, prefix in PREFIXES if value >= size), (1.0, ""))
    return f"{value / size:.3g} {prefix}{unit}"
