"""The nodes of a launcher: their reports, their differences, and the checks that plugins make of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.links.conversation import Conversation
from llmperf.links.link import this_interpreter
from llmperf.planning.interfaces import NetworkInterface
from llmperf.planning.launchers import CheckedLauncher
from llmperf.planning.node_differences import (
    Difference,
    concerns,
    differences,
    models,
    refuse_one_machine,
    usual_report,
)
from llmperf.planning.node_report import Clock, NodeReport, ask_for_reports
from llmperf.planning.nodes import placed_nodes
from llmperf.planning.states import Planned
from llmperf.planning.vendors import chosen_machine
from llmperf.plugins.discovery import Found
from llmperf.plugins.faults import blaming
from llmperf.types.launching import Node
from llmperf.types.node_tasks import NodesChecked, ReachedNode, ReachedNodes

Checks: TypeAlias = Sequence[tuple[Found, Callable[[ReachedNodes], NodesChecked]]]
"""Checks of nodes with the plugins that make them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedNode:
    """One node as its checks show it."""

    host: str
    """Host as the launcher takes it."""
    failure: str | None = None
    """The reason why it could not be asked; the other fields are then empty."""
    hostname: str | None = None
    """Name that the host gives itself."""
    address: str | None = None
    """Address for the ranks of other nodes."""
    interface: NetworkInterface | None = None
    """Interface with that address."""
    devices: str | None = None
    """Devices, such as `8 x NVIDIA H800`."""
    clock: Clock | None = None
    """Its wall clock against the controller's; None if it is unknown."""
    report: NodeReport | None = None
    """Everything that it has reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesReport:
    """The nodes of a launcher, beside each other."""

    vendor: str | None
    """The vendor plugin whose devices a run would use; None if no node has any."""
    nodes: tuple[CheckedNode, ...]
    differences: tuple[Difference, ...]
    """Facts in which the nodes differ."""
    concerns: tuple[str, ...]
    """Disturbances on single nodes."""

    @property
    def sick(self) -> bool:
        """A node cannot be used."""
        broken = any(node.failure is not None for node in self.nodes) or self.vendor is None
        return broken or any(difference.refuses for difference in self.differences)


class Reached:
    """Implements `llmperf.types.ReachedNodes`: the node programs are started when they are first asked."""

    def __init__(
        self,
        launcher: CheckedLauncher,
        nodes: Sequence[Node],
        reports: Sequence[NodeReport],
        vendor: str,
        path: str,
        failed: int = 0,
    ) -> None:
        self._launcher = launcher
        self._placed = nodes
        self._path = path
        self._stack = ExitStack()
        self._conversation: Conversation | None = None
        self.failed = failed
        probes = [next((probe for probe in report.probes if probe.vendor == vendor), None) for report in reports]
        self.nodes = tuple(
            ReachedNode(
                host=node.host,
                address=node.address,
                interface=node.interface,
                machine=report.host.boot_id,
                accelerators=0 if probe is None or probe.on_cpu or probe.simulated else len(probe.devices),
            )
            for node, report, probe in zip(nodes, reports, probes, strict=True)
        )

    def ask(self, name: str, arguments: object, seconds: float) -> dict[int, Any | UserError]:
        """Give a task to all nodes."""
        if self._conversation is None:
            conversation = Conversation(self._launcher, list(enumerate(self._placed)), self._path)
            self._conversation = self._stack.enter_context(conversation)
        answers = self._conversation.ask(name, json_files.builtins(arguments), seconds)
        return {
            rank: answer if isinstance(answer, UserError) else json_files.decode(bytes(answer), dict, f"task {name!r}")
            for rank, answer in answers.items()
        }

    def checked(self, checks: Checks) -> list[NodesChecked]:
        """Run each check, then end the node programs. PluginError names a plugin whose check fails."""
        with self._stack:
            found = []
            for owner, check in checks:
                with blaming(owner, "the check of nodes", limited=False, prints=True):
                    found.append(check(self))
            return found


def reported_nodes(
    launcher: CheckedLauncher,
    offered: Sequence[Node],
    python: str | None,
    vendor: str | None,
    interface: str | None,
    checks: Checks,
) -> tuple[NodesReport, list[NodesChecked]]:
    """Ask all nodes for reports, compare them, and have those checked that have answered."""
    path = python or this_interpreter()
    with Conversation(launcher, list(enumerate(offered)), path) as conversation:
        reached = ask_for_reports(conversation, offered, path, vendor)
        failures, reports, placed = dict(reached.failures), dict(reached.reports), {}
        for rank in list(reports):
            try:
                (placed[rank],) = placed_nodes([offered[rank]], [reports[rank]], interface)
            except UserError as error:
                failures[rank] = str(error)
                del reports[rank]
        ranks, nodes, known = list(reports), list(placed.values()), list(reports.values())
        refuse_one_machine(nodes, known)
        chosen = _vendor(vendor, known)
        clocks = {place: reached.clocks[rank] for place, rank in enumerate(ranks) if rank in reached.clocks}
    found = [] if chosen is None else Reached(launcher, nodes, known, chosen, path, len(failures)).checked(checks)
    listed = [
        CheckedNode(host=node.host, failure=failures[rank])
        if rank in failures
        else _checked(placed[rank], reports[rank], chosen, reached.clocks.get(rank))
        for rank, node in enumerate(offered)
    ]
    report = NodesReport(
        vendor=chosen,
        nodes=tuple(listed),
        differences=tuple(differences(chosen or "", nodes, known)),
        concerns=tuple(concerns(chosen or "", nodes, known, clocks)),
    )
    return report, found


def _vendor(vendor: str | None, reports: Sequence[NodeReport]) -> str | None:
    """The vendor whose devices a run would use on most nodes."""
    if not reports:
        return None
    usual = usual_report(reports)
    try:
        return chosen_machine(vendor, usual.probes, usual.left_out).vendor
    except UserError:
        return None


def _checked(node: Node, report: NodeReport, vendor: str | None, clock: Clock | None) -> CheckedNode:
    interface = next((item for item in report.host.interfaces if item.name == node.interface), None)
    return CheckedNode(
        host=node.host,
        hostname=report.host.hostname,
        address=node.address,
        interface=interface,
        devices=models(vendor, report) if vendor is not None else None,
        clock=clock,
        report=report,
    )


def with_checked_nodes(planned: Planned, checks: Checks) -> Planned:
    """The planned run, with what checks of its nodes show among the notes of its plan.

    Nothing is done for runs on one node. UserError if a check refuses the nodes.
    """
    machine, plan = planned.machine, planned.plan
    nodes = machine.node_list[: plan.layout.nodes]
    if len(nodes) < 2 or machine.launcher is None:
        return planned
    path = machine.interpreter.path if machine.interpreter else this_interpreter()
    reached = Reached(machine.launcher, nodes, machine.reports[: len(nodes)], machine.vendor, path)
    notes = list(plan.notes)
    for found in reached.checked(checks):
        if found.problems:
            raise UserError("; ".join(found.problems))
        found.show()
        notes += found.notes
    return replace(planned, plan=replace(plan, notes=tuple(notes)))
