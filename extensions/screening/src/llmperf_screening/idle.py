"""Before a run: waiting until its machine is idle, and checks that plugins make of its nodes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

from llmperf.errors import LlmperfError, UserError
from llmperf.files import json_files
from llmperf.measuring.sampler import device_sampler, used_devices
from llmperf.planning.states import Planned
from llmperf.runfolder.readings import busy_text
from llmperf.types.hosts import LoadBefore
from llmperf.types.node_tasks import ReachedNodes
from llmperf.types.remote import NodesCheck, NodesReached

LOOK_SECONDS = 2.0
"""Time over which the load is averaged."""
IDLE_LOOKS = 3
"""Looks in a row at which the machine must be idle: other programs pause for a moment."""
ANSWER_SECONDS = 60.0
"""Time for a node to load its plugins and to answer."""

Look = Callable[[], Mapping[str, LoadBefore]]
"""Load of each host, by name; empty for a run on this machine alone."""
Show = Callable[[str, float], None]
"""Called after each look with why the machine is not idle yet, and the seconds since the beginning."""


class StillBusy(LlmperfError):
    """The machine was not idle within the time that the user gave."""

    exit_code = UserError.exit_code


def wait_until_idle(planned: Planned, minutes: float, show: Show) -> None:
    """Return when the hosts and devices of a run are idle, by the bounds of `busy_parts`; StillBusy after that."""
    with _looks(planned) as look:
        wait(look, 60 * minutes, show)


def wait(look: Look, limit_seconds: float, show: Show) -> None:
    """Look until every host was idle IDLE_LOOKS times in a row; StillBusy with what was last in the way."""
    began, idle, busy = time.monotonic(), 0, ""
    while idle < IDLE_LOOKS:
        now = _busy(look())
        idle, busy = (0, now) if now else (idle + 1, busy)
        seconds = time.monotonic() - began
        if idle < IDLE_LOOKS and seconds >= limit_seconds:
            minutes = f"{limit_seconds / 60:g} min"
            raise StillBusy(f"--wait-until-idle: not idle within {minutes}; {busy or 'the time was too short to say'}")
        if idle < IDLE_LOOKS:
            show(now or "idle for the moment", seconds)


def _busy(loads: Mapping[str, LoadBefore]) -> str:
    """The reasons why the first busy host is not idle; empty if all are idle."""
    busy = {host: text for host, load in loads.items() if (text := busy_text(load)) is not None}
    if not busy:
        return ""
    host, text = next(iter(busy.items()))
    others = len(busy) - 1
    more = f" and on {others} more node{'s' * (others > 1)}" if others else ""
    return f"node {host}: {text}{more}" if host else text


@contextmanager
def _looks(planned: Planned) -> Iterator[Look]:
    """A function that looks at this machine, or at the nodes of the launcher, for LOOK_SECONDS."""
    machine, plan = planned.machine, planned.plan
    if machine.launcher is None or not machine.node_list:
        sampler = device_sampler(Path(os.devnull), plan, planned.plugins, LOOK_SECONDS)
        yield lambda: {"": sampler.look(LOOK_SECONDS)}
        return
    arguments = {
        "vendor": plan.vendor,
        "devices": used_devices(plan),
        "on_cpu": plan.probe.on_cpu,
        "seconds": LOOK_SECONDS,
    }
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
