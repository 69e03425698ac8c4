"""Comparison of the records of a run: windows, phases and steps of its ranks."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from llmperf.runfolder import filenames
from llmperf.runfolder.rank_totals import RankTotals
from llmperf.tokens.data_sets import PYTHON_STDLIB
from llmperf.types import Finding, PhaseRecord, RankRecord
from llmperf.validation.rank_records import Own
from llmperf.validation.reading import shown
from llmperf.validation.rules.reading import (
    OTHER_DATA,
    OTHER_PLUGINS,
    OTHER_WINDOW,
    OUTSIDE,
    SAME_RANKS,
    SAME_STEPS,
    SHORT_STEPS,
    SHORT_WINDOW,
    STEP_TOKENS,
)
from llmperf.validation.run_clocks import clock_findings
from llmperf.validation.violations import figure

if TYPE_CHECKING:
    from llmperf.runfolder.contents import RunRecords
    from llmperf.types import Plan

EDGE_SECONDS = 0.001
"""The window and the edges of its phases are the same two readings of one clock: only rounding lies between them."""
SLACK = 0.01
"""Relative. Steps come from device events and the window from the host's clock: over 103 runs their sum was 0.9987 to
1.0000 of the window."""
SLACK_SECONDS = 0.02
"""Time that a busy host may take between the last event and the edge of the window."""
SCRIPT_SLACK = 0.02
"""Relative: a script prints its step times with few digits."""
SCRIPT_SLACK_SECONDS = 0.25
"""A line of an external script may arrive that much later than its step ended, on a busy host."""
FEWEST_STEPS = 4
"""Fewer may be equal by chance where an event's clock is coarse."""
FEWEST_PERIODIC = 16
"""Times of which none comes again by chance, one after the other, or is that of another rank times a factor."""
FEWEST_VALUES = 6
"""Different times in a period: where a clock is coarse, a few values come again by chance."""
MOST_COMPARED = 20_000
"""Steps of a rank that are searched for a period."""
SAME_SHARE = 0.8
"""Share of a rank's measured steps: events count in microseconds or less, and steps of training differ by more."""


def record_findings(records: RunRecords) -> Iterator[Finding]:
    """Contradictions among the records of each finished rank."""
    phases: dict[int, list[PhaseRecord]] = defaultdict(list)
    for phase in records.phases:
        phases[phase.rank].append(phase)
    script = records.plan.worker.script
    teller = next((rank for rank in records.ranks if script is not None and rank.rank == script.step_rank), None)
    ranks: list[Own] = []
    for rank in records.ranks:
        totals = records.by_rank.get(rank.rank) or RankTotals(rank.rank)
        file = filenames.records_path(records.run, rank.rank)
        own = Own(rank=rank, totals=totals, phases=phases[rank.rank], path=file)
        path = own.pointer
        ranks.append(own)
        yield from (STEP_TOKENS.finding(path, message) for message in _miscounted(own))
        yield from (OTHER_WINDOW.finding(path, message) for message in _other_window(own, teller))
        yield from (OUTSIDE.finding(path, message) for message in _outside(own, rank is teller))
        yield from (SHORT_WINDOW.finding(path, message) for message in _short_window(own, script is not None))
        if script is None:
            yield from (SHORT_STEPS.finding(path, message) for message in _short_steps(own))
            yield from (SAME_STEPS.finding(path, message) for message in (*_same_steps(own), *_repeated_steps(own)))
    if script is None:
        yield from _same_ranks(ranks)
    yield from clock_findings(records, ranks)
    yield from _other_data(records.plan, ranks)
    yield from islice(_other_plugins(records.plan, ranks), 1)  # all ranks have the same plan


def _same_steps(own: Own) -> Iterator[str]:
    steps = own.totals.measured_steps
    if steps < FEWEST_STEPS or not own.totals.may_repeat(SAME_SHARE):
        return
    times = Counter(step.step_seconds for step in own.steps() if step.measured)
    seconds, count = times.most_common(1)[0]
    if count >= SAME_SHARE * steps:
        yield f"expected step_seconds that differ, found {seconds!r} in {count} of {steps} measured steps"


def _repeated_steps(own: Own) -> Iterator[str]:
    """Step times that come again in the same order, which a recorded run that is played back has."""
    if own.totals.measured_steps < FEWEST_PERIODIC or own.totals.first_again < 1:
        return
    times = [step.step_seconds for step in islice(own.steps(), MOST_COMPARED) if step.measured]
    for period in range(1, len(times) - FEWEST_PERIODIC + 1):
        if times[period] == times[0] and times[period:] == times[:-period]:
            if len(set(times[:period])) >= FEWEST_VALUES:
                found = f"those of {period} steps again and again in {len(times)} steps"
                yield f"expected step_seconds that differ, found {found}"
            return


def _same_ranks(ranks: list[Own]) -> Iterator[Finding]:
    """Two processes never take the same time to the nanosecond, step after step."""
    seen: dict[bytes, int] = {}
    shapes: dict[bytes, int] = {}
    for own in ranks:
        rank, steps = own.rank.rank, own.totals.measured_steps
        expected = f"expected step_seconds of rank {rank}'s own"
        if steps >= FEWEST_STEPS and (first := seen.setdefault(own.totals.times_digest, rank)) != rank:
            yield SAME_RANKS.finding(own.pointer, f"{expected}, found those of rank {first}")
        elif steps >= FEWEST_PERIODIC and (first := shapes.setdefault(own.totals.shape_digest, rank)) != rank:
            yield SAME_RANKS.finding(own.pointer, f"{expected}, found those of rank {first} times one factor")


def _other_data(plan: Plan, ranks: list[Own]) -> Iterator[Finding]:
    """Data that are not the plan's; those of the library of Python are each interpreter's own."""
    expected = plan.data_fingerprint
    if expected is None or plan.spec.contract.dataset == PYTHON_STDLIB:
        return
    for own in ranks:
        found = own.rank.data_fingerprint
        if found not in (None, expected):
            message = f"expected data with the fingerprint {expected[:12]} (that of the plan), found {str(found)[:12]}"
            yield OTHER_DATA.finding(own.pointer, f"{message}: rank {own.rank.rank} read other data")


def _other_plugins(plan: Plan, ranks: list[Own]) -> Iterator[Finding]:
    """Versions of the core and of plugins in the packages of ranks that are not the plan's; others are not compared."""
    planned = {}  # by import name, as far as it is that of the distribution
    for info in plan.plugins:
        planned["llmperf" if info.role == "core" else re.sub("[-.]", "_", info.distribution.lower())] = info
    for own in ranks:
        for name, info in planned.items():
            found = own.rank.packages.get(name)
            if found is not None and found != info.version:
                expected = f"expected {shown(info.distribution)} {shown(info.version)} (that of the plan)"
                yield OTHER_PLUGINS.finding(own.pointer, f"{expected}, found {shown(found)} on rank {own.rank.rank}")


def _miscounted(own: Own) -> Iterator[str]:
    rank, count, tokens = own.rank, own.totals.measured_steps, own.totals.measured_tokens
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
    if not (own.totals.rising and _all_inside(own.totals, begin, end)):
        yield from islice(_wrong_steps(own, begin, end), 1)
        return
    last_step = own.totals.last.monotonic if own.totals.last is not None else end
    if tells and abs(end - last_step) > EDGE_SECONDS:
        yield f"expected evaluating at {figure(last_step)}, when the last line {who} came, found {figure(end)}"


def _all_inside(totals: RankTotals, begin: float, end: float) -> bool:
    """Check whether every step was handed over in its part of the run, by the earliest and the latest of them."""
    warmup = all(_inside(moment, 0.0, begin) for moment in totals.warmup_moments or ())
    return warmup and all(_inside(moment, begin, end) for moment in totals.measured_moments or ())


def _inside(moment: float, begin: float, end: float) -> bool:
    return begin - EDGE_SECONDS <= moment <= end + EDGE_SECONDS


def _wrong_steps(own: Own, begin: float, end: float) -> Iterator[str]:
    """The steps out of order, then those outside their part of the run."""
    who = f"of rank {own.rank.rank}"
    for before, after in pairwise(own.steps()):
        if after.step <= before.step or after.monotonic < before.monotonic:
            yield f"expected steps {who} in rising order by step and time, found step {after.step} after {before.step}"
    for step in own.steps():
        first, last = (begin, end) if step.measured else (0.0, begin)
        if not _inside(step.monotonic, first, last):
            what = f"{figure(first)} to {figure(last)} ({'measuring' if step.measured else 'warm-up'} {who})"
            yield f"expected step {step.step} handed over within {what}, found {figure(step.monotonic)}"


def _short_window(own: Own, watched: bool) -> Iterator[str]:
    window, seconds = own.rank.window_seconds, own.totals.measured_seconds
    share, more = (SCRIPT_SLACK, SCRIPT_SLACK_SECONDS) if watched else (SLACK, SLACK_SECONDS)
    if window < seconds * (1 - share) - more:
        because = f"the sum of {own.totals.measured_steps} measured steps of rank {own.rank.rank}"
        yield f"expected window_seconds of at least {figure(seconds)} ({because}), found {figure(window)}"


def _short_steps(own: Own) -> Iterator[str]:
    window, seconds = own.rank.window_seconds, own.totals.measured_seconds
    if seconds < window * (1 - SLACK) - SLACK_SECONDS:
        because = f"the window of rank {own.rank.rank}, in which they follow one another"
        yield f"expected step_seconds that sum up to {figure(window)} ({because}), found {figure(seconds)}"
