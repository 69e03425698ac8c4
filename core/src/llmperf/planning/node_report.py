"""The report of a node or of a Python environment on plugins, devices and host."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from llmperf.errors import LlmperfError, UserError
from llmperf.files import json_files
from llmperf.links.conversation import Conversation
from llmperf.links.messages import BEAT_SECONDS
from llmperf.planning.host_facts import HostFacts, host_facts
from llmperf.planning.interfaces import compact_hosts, resolved
from llmperf.types.devices import DeviceSample, Facts, Probe
from llmperf.types.launching import Launcher, Node

if TYPE_CHECKING:
    from llmperf.plugins.discovery import Found

LIMIT_SECONDS = 60.0
"""Time limit for the reports of all nodes together; each imports plugins and asks its driver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledPlugin:
    """A plugin of an environment."""

    role: str
    name: str
    distribution: str
    version: str
    problem: str | None
    """One line if its requirements are not met or a required check fails there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """An environment on a node: its plugins, the devices, and the host."""

    llmperf_version: str
    """Version of llmperf-core."""
    python_version: str
    """Version, such as `3.12.3`."""
    plugins: tuple[InstalledPlugin, ...]
    """The installed vendor, framework and extension plugins."""
    probes: tuple[Probe, ...]
    """The devices that the named vendor plugin sees, or every vendor plugin if none was named."""
    left_out: tuple[str, ...]
    """One line for each vendor plugin that failed."""
    samples: Mapping[str, tuple[DeviceSample, ...]]
    """A reading of each accelerator, by vendor: memory and processes."""
    host: HostFacts
    """The host itself."""

    def plugin(self, role: str, name: str) -> InstalledPlugin | None:
        """The plugin of that role and name; None if it is not installed there."""
        return next((plugin for plugin in self.plugins if (plugin.role, plugin.name) == (role, name)), None)


def node_report(vendor: str | None, address: str | None) -> NodeReport:
    """The report of this environment.

    `vendor` names the only vendor plugin to ask for devices; all if it is None. `address` is the name or address by
    which the launcher knows this node.
    """
    import platform

    from llmperf import __version__
    from llmperf.planning.vendors import probe, probe_all
    from llmperf.plugins.discovery import discover
    from llmperf.plugins.faults import printing_aside

    with printing_aside():
        installed = discover()
        if vendor is not None:
            try:
                probes, left_out = [probe(vendor)], []
            except LlmperfError as error:
                probes, left_out = [], [str(error)]
        else:
            probes, left_out = probe_all()
        samples = {probe.vendor: _samples(probe) for probe in probes}
        facts = _facts(installed)
    return NodeReport(
        llmperf_version=__version__,
        python_version=platform.python_version(),
        plugins=tuple(
            InstalledPlugin(
                role=plugin.role,
                name=plugin.name,
                distribution=plugin.distribution,
                version=plugin.version,
                problem=_problem(plugin),
            )
            for plugin in installed
        ),
        probes=tuple(probes),
        left_out=tuple(left_out),
        samples=samples,
        host=host_facts(facts, resolved(address) if address else ()),
    )


def _problem(plugin: Found) -> str | None:
    """The reason why a plugin cannot run here; None also if loading fails, which the run reports itself."""
    from llmperf.plugins.facts import required_problem
    from llmperf.plugins.mending import unmet_problem

    with suppress(LlmperfError):
        return unmet_problem(plugin) or required_problem(plugin)
    return None


def _facts(installed: Sequence[Found]) -> Facts:
    """The names of variables and packages that matter to any installed plugin; plugins that fail are skipped."""
    from llmperf.plugins.facts import joined_facts
    from llmperf.plugins.loading import Plugins

    known = [joined_facts(Plugins())]
    for plugin in installed:
        with suppress(LlmperfError):
            known.append(joined_facts(Plugins([plugin])))
    return Facts(
        environment_names=tuple(name for facts in known for name in facts.environment_names),
        environment_prefixes=tuple(prefix for facts in known for prefix in facts.environment_prefixes),
        packages=tuple(dict.fromkeys(name for facts in known for name in facts.packages)),
    )


def _samples(probe: Probe) -> tuple[DeviceSample, ...]:
    """A reading of each accelerator of a vendor; empty if its plugin gives none."""
    from llmperf.plugins.discovery import find
    from llmperf.plugins.loading import Plugins

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
    """The node's minus the controller's."""
    error_seconds: float
    """Largest error of the offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """Answers of the nodes of a launcher."""

    reports: Mapping[int, NodeReport]
    """Reports by rank."""
    failures: Mapping[int, str]
    """Reasons by rank why a node has not reported, in one line that names it."""
    clocks: Mapping[int, Clock]
    """Clocks by rank, as far as they are known."""


def ask_for_reports(conversation: Conversation, nodes: Sequence[Node], python: str, vendor: str | None) -> Reached:
    """The report of `python` on each node of a conversation."""
    addresses = [node.address for node in nodes]
    answers = conversation.ask("report", {"vendor": vendor, "addresses": addresses}, LIMIT_SECONDS)
    reports, failures = {}, {}
    for rank, answer in answers.items():
        try:
            if isinstance(answer, UserError):
                raise answer
            reports[rank] = json_files.decode(bytes(answer), NodeReport, f"node {nodes[rank].host}: {python}")
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


def node_reports(launcher: Launcher, nodes: Sequence[Node], python: str, vendor: str | None) -> Reached:
    """The report of `python` on every node, reached through the launcher.

    UserError with the reason of the first node that fails, and the names of the others.
    """
    with Conversation(launcher, list(enumerate(nodes)), python) as conversation:
        reached = ask_for_reports(conversation, nodes, python, vendor)
    if reached.failures:
        first, *others = reached.failures
        more = f"; also without a report: {compact_hosts(nodes[rank].host for rank in others)}" if others else ""
        raise UserError(reached.failures[first] + more)
    return reached
