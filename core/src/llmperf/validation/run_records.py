"""The records of a run against one another: what a rank says of its window, its phases, and the steps it recorded."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from llmperf.runfolder import filenames
from llmperf.types import Finding, PhaseRecord, RankRecord, StepRecord
from llmperf.validation.reading import pointer
from llmperf.validation.rules.reading import (
    OTHER_WINDOW,
    OUTSIDE,
    SAME_RANKS,
    SAME_STEPS,
    SHORT_STEPS,
    SHORT_WINDOW,
    STEP_TOKENS,
)
from llmperf.validation.violations import figure

if TYPE_CHECKING:
    from llmperf.runfolder.contents import RunRecords

EDGE_SECONDS = 0.001
"""The window and the edges of its phases are the same two readings of one clock: only rounding lies between them."""
SLACK = 0.01
"""Relative. Steps come from device events and the window from the host's clock: over 103 runs their sum was 0.9987 to
1.0000 of the window."""
SLACK_SECONDS = 0.02
"""What a busy host may take between the last event and the edge: in a short window that is more than a hundredth."""
SCRIPT_SLACK = 0.02
"""Relative: a script prints its step times with few digits."""
SCRIPT_SLACK_SECONDS = 0.25
"""A line of an external script may arrive that much later than its step ended, on a busy host."""
FEWEST_STEPS = 4
"""Fewer may be equal by chance where an event's clock is coarse."""
SAME_SHARE = 0.8
"""Of a rank's measured steps: events count in microseconds or less, and steps of training differ by more."""


@dataclass(frozen=True, slots=True)
class Own:
    """What one rank recorded."""

    rank: RankRecord
    steps: list[StepRecord]
    phases: list[PhaseRecord]

    @property
    def measured(self) -> list[StepRecord]:
        """Its steps, warm-up left out."""
        return [one for one in self.steps if one.measured]

    @property
    def edges(self) -> tuple[float, float] | None:
        """Where its window begins and ends, by its phases; None unless it has exactly one begin, and an end."""
        begins = [one.monotonic for one in self.phases if one.phase == "measuring"]
        ends = [one.monotonic for one in self.phases if one.phase == "evaluating"]
        return (begins[0], ends[0]) if len(begins) == 1 and ends else None


def record_findings(records: RunRecords) -> Iterator[Finding]:
    """What the records of each finished rank say against one another."""
    steps: dict[int, list[StepRecord]] = defaultdict(list)
    phases: dict[int, list[PhaseRecord]] = defaultdict(list)
    for step in records.steps:
        steps[step.rank].append(step)
    for phase in records.phases:
        phases[phase.rank].append(phase)
    script = records.plan.worker.script
    teller = next((one for one in records.ranks if script is not None and one.rank == script.step_rank), None)
    for rank in records.ranks:
        path = pointer(["files", f"{filenames.RECORDS}/rank-{rank.rank:05d}.jsonl"])
        own = Own(rank, steps[rank.rank], phases[rank.rank])
        yield from (STEP_TOKENS.finding(path, one) for one in _miscounted(own))
        yield from (OTHER_WINDOW.finding(path, one) for one in _other_window(own, teller))
        yield from (OUTSIDE.finding(path, one) for one in _outside(own, rank is teller))
        yield from (SHORT_WINDOW.finding(path, one) for one in _short_window(own, script is not None))
        if script is None:
            yield from (SHORT_STEPS.finding(path, one) for one in _short_steps(own))
            yield from (SAME_STEPS.finding(path, one) for one in _same_steps(own))
    if script is None:
        yield from _same_ranks(records, steps)


def _same_steps(own: Own) -> Iterator[str]:
    times = [one.step_seconds for one in own.measured]
    if len(times) < FEWEST_STEPS:
        return
    seconds, count = Counter(times).most_common(1)[0]
    if count >= SAME_SHARE * len(times):
        yield f"expected step_seconds that differ, found {seconds!r} in {count} of {len(times)} measured steps"


def _same_ranks(records: RunRecords, steps: dict[int, list[StepRecord]]) -> Iterator[Finding]:
    """Two processes never take the same time to the nanosecond, step after step."""
    seen: dict[tuple[float, ...], int] = {}
    for rank in records.ranks:
        times = tuple(one.step_seconds for one in steps[rank.rank] if one.measured)
        first = seen.setdefault(times, rank.rank)
        if len(times) >= FEWEST_STEPS and first != rank.rank:
            path = pointer(["files", f"{filenames.RECORDS}/rank-{rank.rank:05d}.jsonl"])
            yield SAME_RANKS.finding(
                path, f"expected step_seconds of rank {rank.rank}'s own, found those of rank {first}"
            )


def _miscounted(own: Own) -> Iterator[str]:
    rank, count = own.rank, len(own.measured)
    tokens = sum(one.tokens for one in own.measured if not one.skipped)
    because = f"counted in the step records of rank {rank.rank}"
    if rank.measured_steps != count:
        yield f"expected measured_steps {count} ({because}), found {rank.measured_steps}"
    if rank.measured_tokens != tokens:
        yield f"expected measured_tokens {tokens} ({because}), found {rank.measured_tokens}"


def _other_window(own: Own, teller: RankRecord | None) -> Iterator[str]:
    """The window against the phases that mark its edges; of a script's ranks only one has it, the others repeat it."""
    rank = own.rank
    if own.edges is None:
        yield f"expected one phase measuring and a phase evaluating of rank {rank.rank}, whose window has ended"
        return
    expected, because = own.edges[1] - own.edges[0], f"from measuring to evaluating of rank {rank.rank}"
    if teller is not None and rank is not teller:
        expected, because = teller.window_seconds, f"that of rank {teller.rank}, which prints the steps"
    if abs(rank.window_seconds - expected) > EDGE_SECONDS:
        yield f"expected window_seconds {figure(expected)} ({because}), found {figure(rank.window_seconds)}"


def _outside(own: Own, tells: bool) -> Iterator[str]:
    """Steps that were not handed over in their part of the run; the lines of a script are the edges themselves."""
    if own.edges is None:
        return
    who = f"of rank {own.rank.rank}"
    begin, end = own.edges
    for before, after in pairwise(own.steps):
        if after.step <= before.step or after.monotonic < before.monotonic:
            yield f"expected steps {who} in rising order by step and time, found step {after.step} after {before.step}"
            return
    for one in own.steps:
        first, last = (begin, end) if one.measured else (0.0, begin)
        if not first - EDGE_SECONDS <= one.monotonic <= last + EDGE_SECONDS:
            what = f"{figure(first)} to {figure(last)} ({'measuring' if one.measured else 'warm-up'} {who})"
            yield f"expected step {one.step} handed over within {what}, found {figure(one.monotonic)}"
            return
    last_step = own.steps[-1].monotonic if own.steps else end
    if tells and abs(end - last_step) > EDGE_SECONDS:
        yield f"expected evaluating at {figure(last_step)}, when the last line {who} came, found {figure(end)}"


def _short_window(own: Own, watched: bool) -> Iterator[str]:
    window, seconds = own.rank.window_seconds, sum(one.step_seconds for one in own.measured)
    share, more = (SCRIPT_SLACK, SCRIPT_SLACK_SECONDS) if watched else (SLACK, SLACK_SECONDS)
    if window < seconds * (1 - share) - more:
        because = f"the sum of {len(own.measured)} measured steps of rank {own.rank.rank}"
        yield f"expected window_seconds of at least {figure(seconds)} ({because}), found {figure(window)}"


def _short_steps(own: Own) -> Iterator[str]:
    window, seconds = own.rank.window_seconds, sum(one.step_seconds for one in own.measured)
    if seconds < window * (1 - SLACK) - SLACK_SECONDS:
        because = f"the window of rank {own.rank.rank}, in which they follow one another"
        yield f"expected step_seconds that sum up to {figure(window)} ({because}), found {figure(seconds)}"
