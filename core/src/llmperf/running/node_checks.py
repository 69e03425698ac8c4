"""Checks that plugins make of the nodes of a launcher."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from llmperf.errors import UserError
from llmperf.planning.launchers import remote_nodes
from llmperf.planning.states import Planned
from llmperf.types.node_tasks import ReachedNodes
from llmperf.types.remote import NodesCheck, NodesReached


def with_checked_nodes(planned: Planned, checks: Sequence[NodesCheck]) -> Planned:
    """The planned run, with what checks of its nodes show among the notes of its plan.

    Nothing is done for runs on one node. UserError if a check refuses the nodes.
    """
    plan, notes = planned.plan, list(planned.plan.notes)
    if plan.layout.nodes < 2 or planned.machine.launcher is None:
        return planned
    with asking(planned) as nodes:
        found = [check(nodes) for check in checks]
    for checked in found:
        if checked.problems:
            raise UserError("; ".join(checked.problems))
        checked.show()
        notes += checked.notes
    return replace(planned, plan=replace(plan, notes=tuple(notes)))


def asking(planned: Planned) -> AbstractContextManager[ReachedNodes]:
    """The nodes of a run through a launcher, to be given tasks."""
    machine, count = planned.machine, planned.plan.layout.nodes
    assert machine.launcher is not None
    nodes, reports = machine.node_list[:count], machine.reports[:count]
    reached = NodesReached(nodes=nodes, reports=reports, usual=reports[0], concerns=())
    return remote_nodes(machine.launcher, machine.interpreter).asking(reached, machine.vendor)
