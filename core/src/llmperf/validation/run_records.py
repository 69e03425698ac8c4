"""Comparison of the records of a run: windows, phases and steps of its ranks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from llmperf.runfolder import filenames
from llmperf.runfolder.reader import read_steps
from llmperf.runfolder.totals import RankTotals
from llmperf.tokens import PYTHON_STDLIB
from llmperf.types import Finding, PhaseRecord, RankRecord, StepRecord, Text
from llmperf.validation.reading import pointer, shown
from llmperf.validation.rules.while_reading import (
    OTHER_DATA,
    OTHER_PLUGINS,
    OTHER_WINDOW,
    OUTSIDE,
    SHORT_STEPS,
    SHORT_WINDOW,
    STEP_TOKENS,
)
from llmperf.validation.violations import figure

if TYPE_CHECKING:
    from llmperf.runfolder.contents import RunRecords
    from llmperf.types.documents import Rule

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
    path: Path
    """Its file, which is read again only where the totals show that a step is wrong."""

    def steps(self) -> Iterator[StepRecord]:
        """Its steps, from the file."""
        return read_steps(self.path)

    @property
    def edges(self) -> tuple[float, float] | None:
        """Edges of its window, by its phases; None unless it has exactly one begin, and an end."""
        begins = [phase.monotonic for phase in self.phases if phase.phase == "measuring"]
        ends = [phase.monotonic for phase in self.phases if phase.phase == "evaluating"]
        return (begins[0], ends[0]) if len(begins) == 1 and ends else None

    @property
    def pointer(self) -> str:
        """Pointer for findings about it: its file among those of the result."""
        return pointer(["files", f"{filenames.RECORDS}/{self.path.name}"])


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
            path=filenames.records_path(records.run, rank.rank),
        )
        for rank in records.ranks
    ]


def record_findings(records: RunRecords) -> Iterator[Finding]:
    """Contradictions among the records of each finished rank."""
    plan, script = records.plan, records.plan.worker.script
    teller = next((rank for rank in records.ranks if script is not None and rank.rank == script.step_rank), None)
    ranks = own_records(records)
    for own in ranks:
        for rule, message in _window_violations(own, teller, script is not None):
            yield rule.finding(own.pointer, message)
    # the library of Python is each interpreter's own
    data = None if plan.spec.contract.dataset == PYTHON_STDLIB else plan.data_fingerprint
    for own in ranks:
        found = own.rank.data_fingerprint
        if data is not None and found not in (None, data):
            message = Text(
                "expected data with the fingerprint {} (that of the plan), found {}: rank {} read other data",
                *(data[:12], str(found)[:12], own.rank.rank),
            )
            yield OTHER_DATA.finding(own.pointer, message)
    for own in ranks:
        for info in plan.plugins:  # by import name, as far as it is that of the distribution
            name = "llmperf" if info.role == "core" else re.sub("[-.]", "_", info.distribution.lower())
            found = own.rank.packages.get(name)
            if found is not None and found != info.version:
                expected = Text("expected {} {} (that of the plan)", shown(info.distribution), shown(info.version))
                message = Text("{}, found {} on rank {}", expected, shown(found), own.rank.rank)
                yield OTHER_PLUGINS.finding(own.pointer, message)
                return  # all ranks have the same plan


def _window_violations(own: OwnRecords, teller: RankRecord | None, script: bool) -> Iterator[tuple[Rule, str]]:
    """Counts, window and steps of a rank; `teller` prints the steps of an external script, others repeat its window."""
    rank, totals, window, seconds = own.rank, own.totals, own.rank.window_seconds, own.totals.measured_seconds
    because = Text("counted in the step records of rank {}", rank.rank)
    for template, count, found in (
        ("expected measured_steps {} ({}), found {}", totals.measured_steps, rank.measured_steps),
        ("expected measured_tokens {} ({}), found {}", totals.measured_tokens, rank.measured_tokens),
    ):
        if found != count:
            yield STEP_TOKENS, Text(template, count, because, found)
    if own.edges is None:
        message = "expected one phase measuring and a phase evaluating of rank {}, whose window has ended"
        yield OTHER_WINDOW, Text(message, rank.rank)
    else:
        begin, end = own.edges
        expected, because = end - begin, Text("from measuring to evaluating of rank {}", rank.rank)
        if teller is not None and rank is not teller:
            expected, because = teller.window_seconds, Text("that of rank {}, which prints the steps", teller.rank)
        if abs(window - expected) > EDGE_SECONDS:
            message = "expected window_seconds {} ({}), found {}"
            yield OTHER_WINDOW, Text(message, figure(expected), because, figure(window))
        if (outside := _outside(own, begin, end, rank is teller)) is not None:
            yield OUTSIDE, outside
    share, more = (SCRIPT_SLACK, SCRIPT_SLACK_SECONDS) if script else (SLACK, SLACK_SECONDS)
    if window < seconds * (1 - share) - more:
        because = Text("the sum of {} measured steps of rank {}", totals.measured_steps, rank.rank)
        message = "expected window_seconds of at least {} ({}), found {}"
        yield SHORT_WINDOW, Text(message, figure(seconds), because, figure(window))
    if not script and seconds < window * (1 - SLACK) - SLACK_SECONDS:
        because = Text("the window of rank {}, in which they follow one another", rank.rank)
        message = "expected step_seconds that sum up to {} ({}), found {}"
        yield SHORT_STEPS, Text(message, figure(window), because, figure(seconds))


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
