"""The windows of ranks against what the agents of their nodes saw, by clocks that code in a rank cannot change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from llmperf.runfolder import filenames
from llmperf.runfolder.clock_rates import ClockRates, Clocks
from llmperf.runfolder.endings import AGENT_MODULE, RankExit, SeenPhase
from llmperf.types import Finding
from llmperf.validation.rank_records import Own
from llmperf.validation.reading import pointer
from llmperf.validation.rules.reading import CHANGED_CLOCK, OTHER_CLOCKS, UNSEEN_WINDOW
from llmperf.validation.violations import figure

if TYPE_CHECKING:
    from llmperf.runfolder.contents import RunRecords

LATE_SHARE = 0.05
LATE_SECONDS = 1.0
"""Most seconds by which the agent's view of a window may differ from its length: it looks every 0.2 s, and later on a
host whose cores are all busy. With twice as many busy processes as cores it differed by 0.2 s. Where the agent says
that more time passed between its looks, that counts instead."""
RUN_SHARE = 0.01
"""The share is that of a window, which the agent may see in whole looks only; of a whole run it is this."""
EARLY_SECONDS = 0.05
"""An agent sees a phase after it began, but for the rounding of clocks."""
WALL = "by the wall clock of the host"
UPTIME = "by the uptime that the kernel shows"


class Span(NamedTuple):
    """A window as the agent saw it."""

    monotonic: float
    """Seconds by the agent's own clock."""
    uptime: float | None
    """Seconds by the kernel's text."""
    late: float
    """Seconds by which it may differ from the window as the agent looks now and then."""


def clock_findings(records: RunRecords, ranks: list[Own]) -> Iterator[Finding]:
    """Windows that contradict what the agents saw, and windows that no agent saw.

    Of the ranks of a script only the one that prints the steps has a window of its own; without warm-up steps its
    window begins before its first line.
    """
    plan = records.plan
    script = plan.worker.script
    seen = {rank_exit.rank: rank_exit for report in records.reports for rank_exit in report.ranks}
    yield from islice(_contradictions(records, ranks, seen), 1)  # all others have the same cause
    for own in ranks:
        rank = own.rank.rank
        if script is not None and (rank != script.step_rank or not plan.spec.contract.warmup_steps):
            continue
        if own.edges is None:
            continue
        span = _span(seen.get(rank))
        if span is None:
            if AGENT_MODULE in plan.worker.agent:
                message = f"expected when the agent of its node saw rank {rank} measuring and evaluating, found nothing"
                yield UNSEEN_WINDOW.finding(own.pointer, message)
            continue
        claimed = own.edges[1] - own.edges[0]
        if abs(claimed - span.monotonic) > LATE_SHARE * span.monotonic + span.late:
            because = f"from measuring to evaluating of rank {rank}, as the agent of its node saw"
            message = f"expected a window of about {figure(span.monotonic)} s ({because}), found {figure(claimed)} s"
            yield CHANGED_CLOCK.finding(own.pointer, message)
        elif span.uptime is not None and not Clocks(span.monotonic, span.uptime).alike:
            message = f"expected a window of about {figure(span.uptime)} s ({UPTIME})"
            message += f", found {figure(span.monotonic)} s by the agent's clock: it was changed, or the host slept"
            yield UNSEEN_WINDOW.finding(own.pointer, message)


def _contradictions(records: RunRecords, ranks: Sequence[Own], seen: Mapping[int, RankExit]) -> Iterator[Finding]:
    """Clocks that ran at other rates through the run, whatever the measured window alone shows."""
    for readings in records.readings.values():
        if (wrong := readings.clock_rates.contradiction) is not None:
            yield _contradiction(pointer(["files", filenames.MEMORY]), *wrong, WALL, "the monotonic clock")
    for own in ranks:
        rank, rates, uptimes = own.rank.rank, ClockRates(), ClockRates()
        for phase in own.phases:
            rates.add(phase.at, phase.monotonic)
        if (wrong := rates.contradiction) is not None:
            yield _contradiction(own.pointer, *wrong, WALL, f"the monotonic clock of rank {rank}")
        phases = seen[rank].phases if rank in seen else ()
        for look in phases:
            if look.uptime is not None:
                uptimes.add(look.uptime, look.monotonic)
        if (wrong := uptimes.contradiction) is not None:
            yield _contradiction(own.pointer, *wrong, UPTIME, "the agent's clock")
        yield from _apart(own, phases)


def _apart(own: Own, phases: Sequence[SeenPhase]) -> Iterator[Finding]:
    """Phases that the agent saw before they began, or a run that took another time by its clock, which is the same."""
    entered = {phase.phase: phase.monotonic for phase in reversed(own.phases)}
    both = [(entered[look.phase], look) for look in phases if look.phase in entered]
    if not both:
        return
    rank = own.rank.rank
    for moment, look in both:
        if look.monotonic < moment - EARLY_SECONDS:
            message = f"expected a phase of rank {rank} at {figure(look.monotonic)} s or before, when its agent saw it"
            yield OTHER_CLOCKS.finding(own.pointer, f"{message}, found {figure(moment)} s")
            return
    first, last = both[0], both[-1]
    ran, watched = last[0] - first[0], last[1].monotonic - first[1].monotonic
    if abs(ran - watched) > RUN_SHARE * watched + _late(first[1], last[1]):
        yield _contradiction(own.pointer, watched, ran, "by the agent's clock", f"the clock of rank {rank}")


def _contradiction(path: str, expected: float, found: float, by: str, other: str) -> Finding:
    message = f"expected {figure(expected)} s ({by}), found {figure(found)} s by {other}"
    return OTHER_CLOCKS.finding(path, f"{message}: one of the clocks was changed")


def _span(rank_exit: RankExit | None) -> Span | None:
    """The window of a rank as its agent saw it; None if it did not."""
    phases: dict[str, SeenPhase] = {} if rank_exit is None else {seen.phase: seen for seen in rank_exit.phases}
    begin, end = phases.get("measuring"), phases.get("evaluating")
    if begin is None or end is None:
        return None
    uptime = None if begin.uptime is None or end.uptime is None else end.uptime - begin.uptime
    return Span(end.monotonic - begin.monotonic, uptime, _late(begin, end))


def _late(*looks: SeenPhase) -> float:
    """Seconds by which the time between two looks may differ from the time between what they saw."""
    return max(LATE_SECONDS, sum(look.late for look in looks))
