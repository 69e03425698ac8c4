"""What the records of a finished rank say of its window: counts, phases, steps, and the data and plugins it had."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from llmperf import rank_records
from llmperf.types import PhaseRecord, RankRecord, StepRecord, Text, Violation
from llmperf.validation import RankTotals, RunRecords, figure, pointer, rule, shown

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


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRecords:
    """Records of one rank."""

    rank: RankRecord
    totals: RankTotals
    phases: list[PhaseRecord]
    run: Path

    def steps(self) -> Iterator[StepRecord]:
        """Its steps, from its file, which is read again only where the totals show that a step is wrong."""
        return (record for record in rank_records(self.run, self.rank.rank) if isinstance(record, StepRecord))

    @property
    def edges(self) -> tuple[float, float] | None:
        """Edges of its window, by its phases; None unless it has exactly one begin, and an end."""
        begins = [phase.monotonic for phase in self.phases if phase.phase == "measuring"]
        ends = [phase.monotonic for phase in self.phases if phase.phase == "evaluating"]
        return (begins[0], ends[0]) if len(begins) == 1 and ends else None

    @property
    def pointer(self) -> str:
        """Pointer for findings about it: its file among those of the result."""
        return pointer(["files", f"records/rank-{self.rank.rank:05}.jsonl"])


def own_records(records: RunRecords) -> list[OwnRecords]:
    """The records of each rank that has finished its measured window, in rank order."""
    phases: dict[int, list[PhaseRecord]] = defaultdict(list)
    for phase in records.phases:
        phases[phase.rank].append(phase)
    return [
        OwnRecords(
            rank=rank,
            totals=records.by_rank.get(rank.rank) or RankTotals(rank.rank),
            phases=phases[rank.rank],
            run=records.run,
        )
        for rank in records.ranks
    ]


def _teller(records: RunRecords) -> RankRecord | None:
    """The rank that prints the steps of an external script: the others repeat its window."""
    script = records.plan.worker.script
    return next((rank for rank in records.ranks if script is not None and rank.rank == script.step_rank), None)


@rule("LP644", "error", "A rank's steps and tokens are those of its records", "run")
def counts_are_those_of_the_steps(records: RunRecords) -> Iterator[Violation]:
    for own in own_records(records):
        rank, totals = own.rank, own.totals
        because = Text("counted in the step records of rank {}", rank.rank)
        for template, count, found in (
            ("expected measured_steps {} ({}), found {}", totals.measured_steps, rank.measured_steps),
            ("expected measured_tokens {} ({}), found {}", totals.measured_tokens, rank.measured_tokens),
        ):
            if found != count:
                yield own.pointer, Text(template, count, because, found)


@rule("LP646", "error", "A rank's window is the time between its phases", "run")
def window_is_between_its_phases(records: RunRecords) -> Iterator[Violation]:
    teller = _teller(records)
    for own in own_records(records):
        rank, window = own.rank, own.rank.window_seconds
        if own.edges is None:
            message = "expected one phase measuring and a phase evaluating of rank {}, whose window has ended"
            yield own.pointer, Text(message, rank.rank)
            continue
        begin, end = own.edges
        expected, because = end - begin, Text("from measuring to evaluating of rank {}", rank.rank)
        if teller is not None and rank is not teller:
            expected, because = teller.window_seconds, Text("that of rank {}, which prints the steps", teller.rank)
        if abs(window - expected) > EDGE_SECONDS:
            message = "expected window_seconds {} ({}), found {}"
            yield own.pointer, Text(message, figure(expected), because, figure(window))


@rule("LP647", "error", "A rank's steps were handed over within its window", "run")
def steps_are_within_the_window(records: RunRecords) -> Iterator[Violation]:
    teller = _teller(records)
    for own in own_records(records):
        if own.edges is not None and (outside := _outside(own, *own.edges, own.rank is teller)) is not None:
            yield own.pointer, outside


@rule("LP642", "error", "A rank's window is no shorter than the steps in it", "run")
def window_holds_its_steps(records: RunRecords) -> Iterator[Violation]:
    share, more = SLACK, SLACK_SECONDS
    if records.plan.worker.script is not None:
        share, more = SCRIPT_SLACK, SCRIPT_SLACK_SECONDS
    for own in own_records(records):
        window, seconds = own.rank.window_seconds, own.totals.measured_seconds
        if window < seconds * (1 - share) - more:
            because = Text("the sum of {} measured steps of rank {}", own.totals.measured_steps, own.rank.rank)
            message = "expected window_seconds of at least {} ({}), found {}"
            yield own.pointer, Text(message, figure(seconds), because, figure(window))


@rule("LP643", "error", "A rank's steps fill its window", "run")
def steps_fill_the_window(records: RunRecords) -> Iterator[Violation]:
    for own in own_records(records) if records.plan.worker.script is None else ():
        window, seconds = own.rank.window_seconds, own.totals.measured_seconds
        if seconds < window * (1 - SLACK) - SLACK_SECONDS:
            because = Text("the window of rank {}, in which they follow one another", own.rank.rank)
            message = "expected step_seconds that sum up to {} ({}), found {}"
            yield own.pointer, Text(message, figure(window), because, figure(seconds))


def _outside(own: OwnRecords, begin: float, end: float, tells: bool) -> str | None:
    """The first step out of order, or not handed over in its part of the run; the lines of a script are the edges."""
    rank, totals = own.rank.rank, own.totals

    def inside(moment: float, first: float, last: float) -> bool:
        return first - EDGE_SECONDS <= moment <= last + EDGE_SECONDS

    if (
        totals.rising
        and all(inside(moment, 0.0, begin) for moment in totals.warmup_moments or ())
        and all(inside(moment, begin, end) for moment in totals.measured_moments or ())
    ):
        last_step = totals.last.monotonic if totals.last is not None else end
        if tells and abs(end - last_step) > EDGE_SECONDS:
            message = "expected evaluating at {}, when the last line of rank {} came, found {}"
            return Text(message, figure(last_step), rank, figure(end))
        return None
    for before, after in pairwise(own.steps()):
        if after.step <= before.step or after.monotonic < before.monotonic:
            message = "expected steps of rank {} in rising order by step and time, found step {} after {}"
            return Text(message, rank, after.step, before.step)
    for step in own.steps():
        first, last = (begin, end) if step.measured else (0.0, begin)
        if not inside(step.monotonic, first, last):
            part = "{} to {} (measuring of rank {})" if step.measured else "{} to {} (warm-up of rank {})"
            what = Text(part, figure(first), figure(last), rank)
            return Text("expected step {} handed over within {}, found {}", step.step, what, figure(step.monotonic))
    return None


@rule("LP661", "error", "The ranks read the data of the plan", "run")
def data_are_those_of_the_plan(records: RunRecords) -> Iterator[Violation]:
    plan = records.plan
    data = None if plan.spec.contract.dataset == "python-stdlib" else plan.data_fingerprint
    for own in own_records(records):
        found = own.rank.data_fingerprint
        if data is not None and found not in (None, data):
            message = Text(
                "expected data with the fingerprint {} (that of the plan), found {}: rank {} read other data",
                *(data[:12], str(found)[:12], own.rank.rank),
            )
            yield own.pointer, message


@rule("LP667", "error", "The ranks ran the versions of the plugins that the plan has", "run")
def plugins_are_those_of_the_plan(records: RunRecords) -> Iterator[Violation]:
    for own in own_records(records):
        for info in records.plan.plugins:  # by import name, as far as it is that of the distribution
            name = "llmperf" if info.role == "core" else re.sub("[-.]", "_", info.distribution.lower())
            found = own.rank.packages.get(name)
            if found is not None and found != info.version:
                expected = Text("expected {} {} (that of the plan)", shown(info.distribution), shown(info.version))
                yield own.pointer, Text("{}, found {} on rank {}", expected, shown(found), own.rank.rank)
                return
