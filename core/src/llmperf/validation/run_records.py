"""The records of a run against one another: what a rank says of its window, and the steps that it recorded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING

from llmperf import rundir
from llmperf.types import Finding, RankRecord, StepRecord
from llmperf.validation.comparing import figure
from llmperf.validation.reading import pointer
from llmperf.validation.rules.files import SHORT_STEPS, SHORT_WINDOW, STEP_TOKENS

if TYPE_CHECKING:
    from llmperf.results.run_records import RunRecords

SLACK = 0.1
"""Relative; events, the host's counter and its wall clock are three clocks."""
SLACK_SECONDS = 0.02
SCRIPT_SLACK_SECONDS = 1.0
"""A line of an external script may arrive that much later than its step ended."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What the step records of one rank come to, warm-up left out."""

    count: int
    tokens: int
    seconds: float
    """The sum of the steps."""
    between: float
    """From the first to the last of them, by the times at which they were handed over."""


def record_findings(records: RunRecords) -> Iterator[Finding]:
    """What the records of each finished rank say against one another."""
    steps, watched = _measured(records), records.plan.script is not None
    for rank in records.ranks:
        path = pointer(["files", f"{rundir.RECORDS}/rank-{rank.rank:05d}.jsonl"])
        own = steps.get(rank.rank, Measured(0, 0, 0.0, 0.0))
        yield from (STEP_TOKENS.finding(path, one) for one in _miscounted(rank, own))
        yield from (SHORT_WINDOW.finding(path, one) for one in _short_window(rank, own, watched))
        if not watched:
            yield from (SHORT_STEPS.finding(path, one) for one in _short_steps(rank, own))


def _measured(records: RunRecords) -> dict[int, Measured]:
    steps: dict[int, list[StepRecord]] = defaultdict(list)
    for one in records.steps:
        if one.measured:
            steps[one.rank].append(one)
    return {rank: _sum(own) for rank, own in steps.items()}


def _sum(steps: list[StepRecord]) -> Measured:
    times = [one.at for one in steps]
    tokens, seconds = sum(one.tokens for one in steps), fsum(one.step_seconds for one in steps)
    return Measured(len(steps), tokens, seconds, max(times) - min(times))


def _miscounted(rank: RankRecord, own: Measured) -> Iterator[str]:
    because = f"counted in the step records of rank {rank.rank}"
    if rank.measured_steps != own.count:
        yield f"expected measured_steps {own.count} ({because}), found {rank.measured_steps}"
    if rank.measured_tokens != own.tokens:
        yield f"expected measured_tokens {own.tokens} ({because}), found {rank.measured_tokens}"


def _short_window(rank: RankRecord, own: Measured, watched: bool) -> Iterator[str]:
    window = rank.window_seconds
    if _shorter(window, own.seconds, SCRIPT_SLACK_SECONDS if watched else SLACK_SECONDS):
        because = f"the sum of {own.count} measured steps of rank {rank.rank}"
        yield f"expected window_seconds of at least {figure(own.seconds)} ({because}), found {figure(window)}"
    elif _shorter(window, own.between, SLACK_SECONDS):
        yield f"expected window_seconds of at least {_between(rank, own)}, found {figure(window)}"


def _short_steps(rank: RankRecord, own: Measured) -> Iterator[str]:
    if _shorter(own.seconds, own.between, SLACK_SECONDS):
        yield f"expected step_seconds that sum up to {_between(rank, own)} or more, found {figure(own.seconds)}"


def _between(rank: RankRecord, own: Measured) -> str:
    return f"{figure(own.between)} (between the first and the last measured step of rank {rank.rank})"


def _shorter(found: float, expected: float, seconds: float) -> bool:
    return found < expected * (1 - SLACK) - seconds
