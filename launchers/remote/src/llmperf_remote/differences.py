"""The report of a node on plugins, devices and host; differences between nodes of a run, and what `doctor` prints."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from ipaddress import ip_address
from typing import Any, NamedTuple

from llmperf import compact_hosts, decode, painted, print_table, printable
from llmperf.errors import LlmperfError, UserError
from llmperf.launching import environment_report
from llmperf.planning import Plugins, discover, find, joined_facts
from llmperf.types import DeviceSample, EnvironmentReport, Facts, Node, Probe

from llmperf_remote.conversation import Conversation
from llmperf_remote.host_facts import HostFacts, host_facts, resolved, with_interface
from llmperf_remote.messages import BEAT_SECONDS

LIMIT_SECONDS = 60.0
"""Time limit for the reports of all nodes together; each imports plugins and asks its driver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport(EnvironmentReport):
    """An environment on a node: its plugins, the devices, and the host."""

    samples: Mapping[str, tuple[DeviceSample, ...]]
    """A reading of each accelerator, by vendor: memory and processes."""
    host: HostFacts
    """The host itself."""


def node_report(vendor: str | None, address: str | None) -> NodeReport:
    """The report of this environment, by one or all vendors, for a node at an `address`."""
    report = environment_report(vendor)
    return NodeReport(
        **{field.name: getattr(report, field.name) for field in fields(report)},
        samples={probe.vendor: device_samples(probe) for probe in report.probes},
        host=host_facts(installed_facts(), resolved(address) if address else ()),
    )


def installed_facts() -> Facts:
    """The names of variables and packages that matter to any installed plugin; plugins that fail are skipped."""
    known = [joined_facts(Plugins())]
    for plugin in discover():
        with suppress(LlmperfError):
            known.append(joined_facts(Plugins([plugin])))
    return Facts(
        environment_names=tuple(name for facts in known for name in facts.environment_names),
        environment_prefixes=tuple(prefix for facts in known for prefix in facts.environment_prefixes),
        packages=tuple(dict.fromkeys(name for facts in known for name in facts.packages)),
    )


def device_samples(probe: Probe) -> tuple[DeviceSample, ...]:
    """A reading of each accelerator of a vendor; empty if its plugin gives none."""
    if probe.on_cpu or probe.simulated or not probe.devices:
        return ()
    with suppress(LlmperfError, OSError):
        plugins = Plugins([find("vendor", probe.vendor)])
        if plugins.answers("llmperf_query_memory"):
            indices = tuple(device.index for device in probe.devices)
            return tuple(plugins.ask("llmperf_query_memory", devices=indices))
    return ()


class Clock(NamedTuple):
    """The wall clock of a node against the controller's."""

    offset_seconds: float
    error_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """Answers of the nodes of a launcher."""

    reports: Mapping[int, NodeReport]
    failures: Mapping[int, str]
    """Reasons by rank why a node has not reported, in one line that names it."""
    clocks: Mapping[int, Clock]


def ask_for_reports(conversation: Conversation, nodes: Sequence[Node], python: str, vendor: str | None) -> Reached:
    """The report of `python` on each node of a conversation."""
    addresses = [node.address for node in nodes]
    answers = conversation.ask("report", {"vendor": vendor, "addresses": addresses}, LIMIT_SECONDS)
    reports, failures = {}, {}
    for rank, answer in answers.items():
        try:
            if isinstance(answer, UserError):
                raise answer
            reports[rank] = decode(bytes(answer), NodeReport, f"node {nodes[rank].host}: {python}")
        except UserError as error:
            failures[rank] = str(error)
    states = conversation.links.states
    deadline = time.monotonic() + BEAT_SECONDS + 0.5  # the first beat may have been left out for a line that waited
    while len(nodes) > 1 and any(states[rank].clock_offset_seconds is None for rank in reports):
        if time.monotonic() > deadline:
            break
        time.sleep(0.02)
    clocks = {
        rank: Clock(state.clock_offset_seconds, state.clock_error_seconds)
        for rank, state in states.items()
        if state.clock_offset_seconds is not None and state.clock_error_seconds is not None
    }
    return Reached(reports=reports, failures=failures, clocks=clocks)


def placed_nodes(offered: Sequence[Node], reports: Sequence[NodeReport], interface: str | None) -> tuple[Node, ...]:
    """The nodes with their network interfaces and numeric addresses; UserError if one lacks the named interface."""
    return tuple(
        with_interface(node, report.host.interfaces, (*report.host.known_as, *resolved(node.address)), interface)
        for node, report in zip(offered, reports, strict=True)
    )


MAX_CLOCK_SECONDS = 1.0
"""Larger offsets of a node's clock are reported: no figure depends on them, but they confuse a reader of logs."""
MIN_TEMPORARY_BYTES = 2**28
MEMORY_STEP = 2**30
"""Hosts with the same memory report sizes that differ by less, since firmware keeps a part."""
PACKAGE, VARIABLE = "package ", "variable "
"""Beginnings of the facts that only those nodes know whose plugins name them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A fact in which nodes differ."""

    what: str
    values: tuple[tuple[str, tuple[str, ...]], ...]
    """Each value with the hosts that have it, most hosts first."""
    refuses: bool = False

    def __str__(self) -> str:
        return f"{self.what}: {'; '.join(f'{value} on {compact_hosts(hosts)}' for value, hosts in self.values)}"


def differences(vendor: str, nodes: Sequence[Node], reports: Sequence[NodeReport]) -> list[Difference]:
    """The facts in which these nodes differ, those that refuse a run first, each with the most frequent value first."""
    tables = [dict(_facts(vendor, node, report)) for node, report in zip(nodes, reports, strict=True)]
    plugins = [frozenset((plugin.role, plugin.name) for plugin in report.plugins) for report in reports]
    differences = []
    for what in sorted({what for table in tables for what in table}, key=lambda what: (not what[1], what[0])):
        sources = [names for table, names in zip(tables, plugins, strict=True) if what in table]
        by_plugins = what[0].startswith((PACKAGE, VARIABLE))
        known = [
            (node.host, table.get(what, "none"))
            for node, table, names in zip(nodes, tables, plugins, strict=True)
            if what in table or not by_plugins or any(source <= names for source in sources)
        ]
        ordered = Counter(value for _, value in known).most_common()
        values = tuple((value, tuple(host for host, other in known if other == value)) for value, _ in ordered)
        if len(values) > 1:
            differences.append(Difference(what=what[0], values=values, refuses=what[1]))
    return differences


def _facts(vendor: str, node: Node, report: NodeReport) -> Iterator[tuple[tuple[str, bool], str]]:
    """The compared facts of a node: what, whether a difference refuses a run, and the value."""
    host = report.host
    yield ("Python", True), report.python_version
    yield ("devices", True), models(vendor, report)
    for plugin in report.plugins:
        yield (f"{plugin.role} {plugin.name!r}", (plugin.role, plugin.name) == ("vendor", vendor)), plugin.version
    probe = next((probe for probe in report.probes if probe.vendor == vendor), None)
    if probe is not None:
        yield ("driver", False), probe.driver or "unknown"
        yield ("interconnect of devices", False), probe.interconnect or "unknown"
    yield ("system", False), host.os
    yield ("kernel", False), host.kernel
    yield ("processor", False), f"{host.cores} cores of {host.cpu or 'unknown'}"
    yield ("memory", False), _gib(host.memory_bytes)
    yield ("temporary folder", False), host.temporary_folder  # another one where the usual one is full
    yield ("/dev/shm", False), _gib(host.shared_memory_bytes)
    yield ("limit of open files", False), "unlimited" if host.open_files is None else str(host.open_files)
    yield ("limit of locked memory", False), _gib(host.locked_bytes) if host.locked_bytes is not None else "unlimited"
    for interface in host.interfaces:
        if interface.name == node.interface:
            speed = interface.megabits_per_second
            yield ("MTU", False), str(interface.mtu or "unknown")
            yield ("speed of the link", False), "unknown" if speed is None else f"{speed} Mbit/s"
            yield ("state of the link", False), "up" if interface.up else "down"
    for name, version in host.packages.items():
        yield (PACKAGE + name, False), version
    for name, value in host.environment.items():
        yield (VARIABLE + name, False), repr(value)


def models(vendor: str, report: NodeReport) -> str:
    """The devices of a vendor on a node, such as `8 x NVIDIA H800`."""
    listed = [device.model for probe in report.probes if probe.vendor == vendor for device in probe.devices]
    return ", ".join(f"{listed.count(model)} x {model}" for model in dict.fromkeys(listed)) or "none"


def _gib(count: int | None) -> str:
    if count is None:
        return "unknown"
    return f"{round(count / MEMORY_STEP)} GiB" if count >= MEMORY_STEP else f"{count / 2**20:g} MiB"


def concerns(
    vendor: str, nodes: Sequence[Node], reports: Sequence[NodeReport], clocks: Mapping[int, Clock]
) -> Iterator[str]:
    """One line for each thing on a single node that disturbs a run: busy devices, a full disk, a wrong clock."""
    for rank, (node, report) in enumerate(zip(nodes, reports, strict=True)):
        for sample in report.samples.get(vendor, ()):
            if sample.process_ids:
                count = len(sample.process_ids)
                processes = "a process computes" if count == 1 else f"{count} processes compute"
                yield f"node {node.host}: device {sample.index} is busy: {processes} on it"
        free = report.host.temporary_free_bytes
        if free is not None and free < MIN_TEMPORARY_BYTES:
            yield (
                f"node {node.host}: {report.host.temporary_folder} has {free / 2**20:.0f} MiB free; expected 256 MiB or"
                " more for the records and logs of a run"
            )
        offset, error = clocks.get(rank, Clock(0.0, 0.0))
        if abs(offset) - error > MAX_CLOCK_SECONDS:
            ahead = "ahead of" if offset > 0 else "behind"
            yield f"node {node.host}: its clock is {abs(offset):.1f} s {ahead} this machine's"


def refuse_one_machine(nodes: Sequence[Node], reports: Sequence[NodeReport]) -> None:
    """UserError if one host has been named twice, by different names: one kernel, one network, not only loopback."""
    known: dict[object, Node] = {}
    for node, report in zip(nodes, reports, strict=True):
        addresses = frozenset(at for item in report.host.interfaces if not item.loopback for at in item.addresses)
        if report.host.boot_id is None or not addresses or _is_loopback(node.address):
            continue
        first = known.setdefault((report.host.boot_id, report.host.hostname, addresses), node)
        if first.host != node.host:
            raise UserError(
                f"hosts {first.host} and {node.host}: expected two machines, found one ({report.host.hostname}) under"
                " two names; name it once"
            )


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def usual_report(reports: Sequence[NodeReport]) -> NodeReport:
    """The first report with the devices that most nodes have."""
    devices = [tuple(models(probe.vendor, report) for probe in report.probes) for report in reports]
    return reports[devices.index(Counter(devices).most_common(1)[0][0])]


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
