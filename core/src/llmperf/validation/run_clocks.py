"""The windows of ranks against what the agents of their nodes saw, by clocks that code in a rank cannot change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from llmperf.runfolder.endings import AGENT_MODULE, RankExit, SeenPhase
from llmperf.types import Finding
from llmperf.validation.rank_records import Own
from llmperf.validation.rules.reading import CHANGED_CLOCK, UNSEEN_WINDOW
from llmperf.validation.violations import figure

if TYPE_CHECKING:
    from llmperf.runfolder.contents import RunRecords

LATE_SHARE = 0.05
LATE_SECONDS = 1.0
"""How much the agent may see of a window less or more than it lasted: it looks every 0.2 s, and later on a host whose
cores are all busy. With twice as many busy processes as cores it differed by 0.2 s."""


class Span(NamedTuple):
    """A window as the agent saw it."""

    monotonic: float
    """Seconds by the agent's own clock."""
    uptime: float | None
    """Seconds by the kernel's text."""


def clock_findings(records: RunRecords, ranks: list[Own]) -> Iterator[Finding]:
    """Windows that contradict what the agents saw, and windows that no agent saw.

    Of the ranks of a script only the one that prints the steps has a window of its own; without warm-up steps its
    window begins before its first line.
    """
    plan = records.plan
    script = plan.worker.script
    seen = {rank_exit.rank: rank_exit for report in records.reports for rank_exit in report.ranks}
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
        if not _alike(claimed, span.monotonic):
            because = f"from measuring to evaluating of rank {rank}, as the agent of its node saw"
            message = f"expected a window of about {figure(span.monotonic)} s ({because}), found {figure(claimed)} s"
            yield CHANGED_CLOCK.finding(own.pointer, message)
        elif span.uptime is not None and not _alike(span.monotonic, span.uptime):
            message = f"expected a window of about {figure(span.uptime)} s (by the uptime that the kernel shows)"
            message += f", found {figure(span.monotonic)} s by the agent's clock: it was changed, or the host slept"
            yield UNSEEN_WINDOW.finding(own.pointer, message)


def _span(rank_exit: RankExit | None) -> Span | None:
    """The window of a rank as its agent saw it; None if it did not."""
    phases: dict[str, SeenPhase] = {} if rank_exit is None else {seen.phase: seen for seen in rank_exit.phases}
    begin, end = phases.get("measuring"), phases.get("evaluating")
    if begin is None or end is None:
        return None
    uptime = None if begin.uptime is None or end.uptime is None else end.uptime - begin.uptime
    return Span(end.monotonic - begin.monotonic, uptime)


def _alike(claimed: float, seen: float) -> bool:
    return abs(claimed - seen) <= LATE_SHARE * seen + LATE_SECONDS
