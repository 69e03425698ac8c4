"""Before a run: what other programs do on its hosts, and checks that plugins make of its nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.launching.run_here import load_here
from llmperf.measuring.sampler import used_devices
from llmperf.planning.states import Planned
from llmperf.types.hosts import LoadBefore
from llmperf.types.node_tasks import ReachedNodes
from llmperf.types.remote import NodesCheck, NodesReached

ANSWER_SECONDS = 60.0
"""Time for a node to load its plugins and to answer."""


@contextmanager
def host_loads(planned: Planned, seconds: float) -> Iterator[Callable[[], Mapping[str, LoadBefore]]]:
    """A function that looks for some seconds at the load of each host, by name; empty for a run on this machine."""
    machine, plan = planned.machine, planned.plan
    devices, on_cpu = used_devices(plan), plan.probe.on_cpu
    if machine.launcher is None or not machine.node_list:
        yield lambda: {"": load_here(plan.vendor, devices, on_cpu, seconds)}
        return
    arguments = {"vendor": plan.vendor, "devices": devices, "on_cpu": on_cpu, "seconds": seconds}
    with asking(planned) as nodes:

        def look() -> dict[str, LoadBefore]:
            loads = {}
            for rank, answer in nodes.ask("load", arguments, ANSWER_SECONDS).items():
                if isinstance(answer, UserError):
                    raise answer
                host = nodes.nodes[rank].host
                loads[host] = json_files.convert(answer, LoadBefore, f"answer of node {host}")
            return loads

        yield look


def with_checked_nodes(planned: Planned, checks: Sequence[NodesCheck]) -> Planned:
    """The planned run, with what checks of its nodes show among its notes; UserError if one refuses them."""
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
    return machine.launcher.remote(machine.interpreter).asking(reached, machine.vendor)
