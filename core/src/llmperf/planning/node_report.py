"""The report of a node or of a Python environment on its plugins and devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmperf.errors import LlmperfError, UserError
from llmperf.files import json_files
from llmperf.links.conversation import Conversation
from llmperf.types.devices import Probe
from llmperf.types.launching import Launcher, Node

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
    """One line if its requirements are not met there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """The plugins and devices of an environment on a node."""

    llmperf_version: str
    """Version of llmperf-core."""
    python_version: str
    """Such as `3.12.3`."""
    plugins: tuple[InstalledPlugin, ...]
    """The installed vendor, framework and extension plugins."""
    probes: tuple[Probe, ...]
    """The devices that the named vendor plugin sees, or every vendor plugin if none was named."""
    left_out: tuple[str, ...]
    """One line for each vendor plugin that failed."""

    def plugin(self, role: str, name: str) -> InstalledPlugin | None:
        """The plugin of that role and name; None if it is not installed there."""
        return next((plugin for plugin in self.plugins if (plugin.role, plugin.name) == (role, name)), None)


def node_report(vendor: str | None) -> NodeReport:
    """The report of this environment. `vendor` names the only vendor plugin to ask for devices; all if it is None."""
    import platform

    from llmperf import __version__
    from llmperf.planning.vendors import probe, probe_all
    from llmperf.plugins.discovery import discover
    from llmperf.plugins.faults import printing_aside
    from llmperf.plugins.mending import unmet_problem

    with printing_aside():
        found = discover()
        if vendor is not None:
            try:
                probes, left_out = [probe(vendor)], []
            except LlmperfError as error:
                probes, left_out = [], [str(error)]
        else:
            probes, left_out = probe_all()
    return NodeReport(
        llmperf_version=__version__,
        python_version=platform.python_version(),
        plugins=tuple(
            InstalledPlugin(
                role=plugin.role,
                name=plugin.name,
                distribution=plugin.distribution,
                version=plugin.version,
                problem=unmet_problem(plugin),
            )
            for plugin in found
        ),
        probes=tuple(probes),
        left_out=tuple(left_out),
    )


def node_reports(launcher: Launcher, nodes: Sequence[Node], python: str, vendor: str | None) -> list[NodeReport]:
    """The report of `python` on each node, reached through the launcher; UserError for the first node that fails."""
    with Conversation(launcher, list(enumerate(nodes)), python) as conversation:
        answers = conversation.ask("report", {"vendor": vendor}, LIMIT_SECONDS)
    reports = []
    for rank, answer in answers.items():
        if isinstance(answer, UserError):
            raise answer
        reports.append(json_files.decode(bytes(answer), NodeReport, f"node {nodes[rank].host}: {python}"))
    return reports
