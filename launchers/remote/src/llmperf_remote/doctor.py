"""The nodes of a launcher, side by side, as `llmperf doctor --launcher L --hosts A,B` prints them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llmperf import painted, print_table, printable
from llmperf.types import Node

from llmperf_remote.differences import models
from llmperf_remote.host_facts import HostFacts
from llmperf_remote.reports import Clock, NodeReport

KEYS = ("host", "failure", "hostname", "address", "interface", "devices", "clock", "report")
"""Keys of a node; `failure` is the reason why it could not be asked, and the others are then None."""


def described(
    node: Node, report: NodeReport | None, vendor: str | None, clock: Clock | None, failure: str | None
) -> dict[str, Any]:
    """A node by its report, or by why it has none."""
    if report is None:
        return {**dict.fromkeys(KEYS), "host": node.host, "failure": failure}
    interface = next((item for item in report.host.interfaces if item.name == node.interface), None)
    devices = models(vendor, report) if vendor is not None else None
    values = (node.host, None, report.host.hostname, node.address, interface, devices, clock, report)
    return dict(zip(KEYS, values, strict=True))


def lines(checked: Mapping[str, Any]) -> Iterator[str]:
    """The lines below the table of nodes, which is printed first."""
    reached = [node for node in checked["nodes"] if node["failure"] is None]
    if reached:
        columns = ["node", "address", "interface", "devices", "memory free", "load", "clock"]
        print_table(columns, [_row(node, node["report"].host, node["clock"]) for node in reached])
        yield ""
    for node in checked["nodes"]:
        if node["failure"] is not None:
            yield f"{painted('error')}: {printable(node['failure'], ' ')}"
    if checked["vendor"] is None and reached:
        yield f"{painted('error')}: no vendor plugin sees a device on these nodes"
    for difference in checked["differences"]:
        word = painted("error" if difference.refuses else "warning")
        yield f"{word}: nodes differ in {printable(str(difference), ' ')}"
    for concern in checked["concerns"]:
        yield f"{painted('warning')}: {printable(concern, ' ')}"


def _row(node: Mapping[str, Any], host: HostFacts, clock: Clock | None) -> list[Any]:
    return [
        node["host"],
        node["address"],
        node["interface"].name if node["interface"] else None,
        node["devices"],
        None if host.memory_free_bytes is None else f"{host.memory_free_bytes / 2**30:.2f} GiB",
        None if host.load is None else f"{host.load:.1f}",
        None if clock is None else f"{1e3 * clock.offset_seconds:+.1f} ± {1e3 * clock.error_seconds:.1f} ms",
    ]
