"""Comparison of the records of a run: windows, phases and steps of its ranks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from llmperf.runfolder import filenames
from llmperf.runfolder.reader import read_steps
from llmperf.runfolder.totals import RankTotals
from llmperf.tokens.data_sets import PYTHON_STDLIB
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
    script = records.plan.worker.script
    teller = next((rank for rank in records.ranks if script is not None and rank.rank == script.step_rank), None)
    ranks = own_records(records)
    for own in ranks:
        for rule, messages in (
            (STEP_TOKENS, _miscounted(own)),
            (OTHER_WINDOW, _other_window(own, teller)),
            (OUTSIDE, _outside(own, own.rank is teller)),
            (SHORT_WINDOW, _short_window(own, script is not None)),
            (SHORT_STEPS, _short_steps(own) if script is None else ()),
        ):
            yield from (rule.finding(own.pointer, message) for message in messages)
    yield from _other_data(records.plan, ranks)
    yield from islice(_other_plugins(records.plan, ranks), 1)  # all ranks have the same plan


def _other_data(plan: Plan, ranks: list[OwnRecords]) -> Iterator[Finding]:
    """Data that are not the plan's; those of the library of Python are each interpreter's own."""
    expected = plan.data_fingerprint
    if expected is None or plan.spec.contract.dataset == PYTHON_STDLIB:
        return
    for own in ranks:
        found = own.rank.data_fingerprint
        if found not in (None, expected):
            message = Text(
                "expected data with the fingerprint {} (that of the plan), found {}: rank {} read other data",
                *(expected[:12], str(found)[:12], own.rank.rank),
            )
            yield OTHER_DATA.finding(own.pointer, message)


def _other_plugins(plan: Plan, ranks: list[OwnRecords]) -> Iterator[Finding]:
    """Versions of the core and of plugins in the packages of ranks that are not the plan's; others are not compared."""
    planned = {}  # by import name, as far as it is that of the distribution
    for info in plan.plugins:
        planned["llmperf" if info.role == "core" else re.sub("[-.]", "_", info.distribution.lower())] = info
    for own in ranks:
        for name, info in planned.items():
            found = own.rank.packages.get(name)
            if found is not None and found != info.version:
                expected = Text("expected {} {} (that of the plan)", shown(info.distribution), shown(info.version))
                message = Text("{}, found {} on rank {}", expected, shown(found), own.rank.rank)
                yield OTHER_PLUGINS.finding(own.pointer, message)


def _miscounted(own: OwnRecords) -> Iterator[str]:
    because = Text("counted in the step records of rank {}", own.rank.rank)
    for template, expected, found in (
        ("expected measured_steps {} ({}), found {}", own.totals.measured_steps, own.rank.measured_steps),
        ("expected measured_tokens {} ({}), found {}", own.totals.measured_tokens, own.rank.measured_tokens),
    ):
        if found != expected:
            yield Text(template, expected, because, found)


def _other_window(own: OwnRecords, teller: RankRecord | None) -> Iterator[str]:
    """The window against the phases that mark its edges; of a script's ranks only one has it, the others repeat it."""
    rank = own.rank
    if own.edges is None:
        yield Text("expected one phase measuring and a phase evaluating of rank {}, whose window has ended", rank.rank)
        return
    expected, because = own.edges[1] - own.edges[0], Text("from measuring to evaluating of rank {}", rank.rank)
    if teller is not None and rank is not teller:
        expected, because = teller.window_seconds, Text("that of rank {}, which prints the steps", teller.rank)
    if abs(rank.window_seconds - expected) > EDGE_SECONDS:
        yield Text("expected window_seconds {} ({}), found {}", figure(expected), because, figure(rank.window_seconds))


def _outside(own: OwnRecords, tells: bool) -> Iterator[str]:
    """Steps that were not handed over in their part of the run; the lines of a script are the edges themselves."""
    if own.edges is None:
        return
    begin, end = own.edges
    if not (own.totals.rising and _all_inside(own.totals, begin, end)):
        yield from islice(_wrong_steps(own, begin, end), 1)
        return
    last_step = own.totals.last.monotonic if own.totals.last is not None else end
    if tells and abs(end - last_step) > EDGE_SECONDS:
        message = "expected evaluating at {}, when the last line of rank {} came, found {}"
        yield Text(message, figure(last_step), own.rank.rank, figure(end))


def _all_inside(totals: RankTotals, begin: float, end: float) -> bool:
    """Check whether every step was handed over in its part of the run, by the earliest and the latest of them."""
    warmup = all(_inside(moment, 0.0, begin) for moment in totals.warmup_moments or ())
    return warmup and all(_inside(moment, begin, end) for moment in totals.measured_moments or ())


def _inside(moment: float, begin: float, end: float) -> bool:
    return begin - EDGE_SECONDS <= moment <= end + EDGE_SECONDS


def _wrong_steps(own: OwnRecords, begin: float, end: float) -> Iterator[str]:
    """The steps out of order, then those outside their part of the run."""
    rank = own.rank.rank
    for before, after in pairwise(own.steps()):
        if after.step <= before.step or after.monotonic < before.monotonic:
            message = "expected steps of rank {} in rising order by step and time, found step {} after {}"
            yield Text(message, rank, after.step, before.step)
    for step in own.steps():
        first, last = (begin, end) if step.measured else (0.0, begin)
        if not _inside(step.monotonic, first, last):
            part = "{} to {} (measuring of rank {})" if step.measured else "{} to {} (warm-up of rank {})"
            what = Text(part, figure(first), figure(last), rank)
            yield Text("expected step {} handed over within {}, found {}", step.step, what, figure(step.monotonic))


def _short_window(own: OwnRecords, watched: bool) -> Iterator[str]:
    window, seconds = own.rank.window_seconds, own.totals.measured_seconds
    share, more = (SCRIPT_SLACK, SCRIPT_SLACK_SECONDS) if watched else (SLACK, SLACK_SECONDS)
    if window < seconds * (1 - share) - more:
        because = Text("the sum of {} measured steps of rank {}", own.totals.measured_steps, own.rank.rank)
        yield Text("expected window_seconds of at least {} ({}), found {}", figure(seconds), because, figure(window))


def _short_steps(own: OwnRecords) -> Iterator[str]:
    window, seconds = own.rank.window_seconds, own.totals.measured_seconds
    if seconds < window * (1 - SLACK) - SLACK_SECONDS:
        because = Text("the window of rank {}, in which they follow one another", own.rank.rank)
        yield Text("expected step_seconds that sum up to {} ({}), found {}", figure(window), because, figure(seconds))
