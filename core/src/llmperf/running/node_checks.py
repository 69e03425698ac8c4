"""Checks of the nodes of a launcher: their reports, their differences, and their screening."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from llmperf.errors import UserError
from llmperf.links.conversation import Conversation
from llmperf.links.link import this_interpreter
from llmperf.planning.interfaces import NetworkInterface, compact
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
from llmperf.screening.screen import Screening
from llmperf.screening.verdict import Verdict, verdict
from llmperf.types.launching import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedNode:
    """One node as its checks show it."""

    host: str
    """As the launcher takes it."""
    failure: str | None = None
    """Why it could not be asked; the other fields are then empty."""
    hostname: str | None = None
    """As the host calls itself."""
    address: str | None = None
    """Address for the ranks of other nodes."""
    interface: NetworkInterface | None = None
    """Interface with that address."""
    devices: str | None = None
    """Such as `8 x NVIDIA H800`."""
    clock: Clock | None = None
    """Its wall clock against the controller's; None if it is unknown."""
    report: NodeReport | None = None
    """Everything that it has reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesCheck:
    """The nodes of a launcher, checked."""

    vendor: str | None
    """The vendor plugin whose devices a run would use; None if no node has any."""
    nodes: tuple[CheckedNode, ...]
    differences: tuple[Difference, ...]
    """Facts in which the nodes differ."""
    concerns: tuple[str, ...]
    """What disturbs a run on single nodes."""
    verdict: Verdict | None
    """What the screening shows; None if there was none."""

    @property
    def sick(self) -> bool:
        """Whether a node cannot be used, or is slow."""
        broken = any(node.failure is not None for node in self.nodes) or self.vendor is None
        unlike = any(difference.refuses for difference in self.differences)
        return broken or unlike or (self.verdict is not None and self.verdict.sick)


def check_nodes(
    launcher: CheckedLauncher,
    offered: Sequence[Node],
    python: str | None,
    vendor: str | None,
    interface: str | None,
    screening: bool,
) -> NodesCheck:
    """Ask all nodes for reports, compare them, and screen those that have answered, unless `screening` is false."""
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
    found = None
    if screening and chosen is not None:
        with Conversation(launcher, list(enumerate(nodes)), path) as conversation:
            found = verdict(Screening(conversation, nodes, known, chosen, together=True).run())
    checked = [
        CheckedNode(host=node.host, failure=failures[rank])
        if rank in failures
        else _checked(placed[rank], reports[rank], chosen, reached.clocks.get(rank))
        for rank, node in enumerate(offered)
    ]
    return NodesCheck(
        vendor=chosen,
        nodes=tuple(checked),
        differences=tuple(differences(chosen or "", nodes, known)),
        concerns=tuple(concerns(chosen or "", nodes, known, clocks)),
        verdict=found,
    )


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


def screened(planned: Planned, say: Callable[[str], None]) -> Planned:
    """The planned run, with what the screening of its nodes shows among the notes of its plan.

    Nothing is done for runs on one node. UserError if ranks on different nodes could not reach each other.
    """
    machine, plan = planned.machine, planned.plan
    nodes = machine.node_list[: plan.layout.nodes]
    if len(nodes) < 2 or machine.launcher is None:
        return planned
    path = machine.interpreter.path if machine.interpreter else this_interpreter()
    with Conversation(machine.launcher, list(enumerate(nodes)), path) as conversation:
        reports = machine.reports[: len(nodes)]
        found = verdict(Screening(conversation, nodes, reports, machine.vendor, together=False).run())
    if found.unreachable:
        raise UserError("; ".join(found.unreachable))
    outcome = "none stands out" if not found.slow else f"{len(found.slow)} finding{'s' * (len(found.slow) != 1)}"
    say(f"screening of {compact(node.host for node in nodes)}: {found.seconds:.0f} s, {outcome}")
    for line in found.slow:
        say(f"warning: screening: {line}")
    notes = (*plan.notes, *(f"screening: {line}" for line in (*found.slow, *found.not_measured)))
    return replace(planned, plan=replace(plan, notes=notes))
