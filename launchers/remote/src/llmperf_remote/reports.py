"""The report of a node on plugins, devices and host, and how the controller asks all nodes for theirs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import NamedTuple

from llmperf import decode
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
