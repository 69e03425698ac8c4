"""Totals of the steps of a run, computed step by step."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from llmperf.runfolder.loss_curve import LossCurve
from llmperf.types.records import StepRecord


class StepTotals:
    """Sums over steps. A step is complete when every rank has finished it."""

    def __init__(self, world: int, planned_tokens: int) -> None:
        self._world = world
        self._planned = planned_tokens
        self.curve = LossCurve()
        """Of the steps that all ranks have finished or whose loss is no number."""
        self.recorded = 0
        """Steps that at least one rank has finished."""
        self.most_ranks = 0
        """Largest number of ranks that have finished a step."""
        self.complete = 0
        """Complete steps."""
        self.tokens = 0
        """Of the complete steps."""
        self.fewer = 0
        """Complete steps with fewer tokens than planned."""
        self.first_fewer: int | None = None
        self.miscounted = 0
        """Complete steps with more tokens than planned, or with none."""
        self.first_miscounted: tuple[int, int] | None = None
        """The first of them, and its tokens."""
        self.measured_tokens = 0
        """Of the measured complete steps that no rank skipped."""
        self.skipped: int | None = 0
        """Measured complete steps without an update; None if no rank reports it for some step."""
        self.slowest_seconds = array("d")
        """The time of the slowest rank in each measured complete step: 8 bytes for each."""

    def add(self, step: int, ranks: Sequence[StepRecord]) -> None:
        """Add the next step with the records of its ranks."""
        self.recorded += 1
        self.most_ranks = max(self.most_ranks, len(ranks))
        complete = len(ranks) == self._world
        nonfinite = next((rank.nonfinite for rank in ranks if rank.nonfinite is not None), None)
        if complete or nonfinite is not None:
            self.curve.add(step, ranks, nonfinite)
        if not complete:
            return
        tokens = [rank.tokens for rank in ranks]
        self._count(step, sum(tokens), min(tokens) < 0)
        if ranks[0].measured:
            self._measure(ranks, sum(tokens))

    def _count(self, step: int, tokens: int, negative: bool) -> None:
        self.complete += 1
        self.tokens += tokens
        if tokens < self._planned:
            self.fewer += 1
            self.first_fewer = step if self.first_fewer is None else self.first_fewer
        if tokens > self._planned or tokens <= 0 or negative:
            self.miscounted += 1
            self.first_miscounted = self.first_miscounted or (step, tokens)

    def _measure(self, ranks: Sequence[StepRecord], tokens: int) -> None:
        reported = [rank.skipped for rank in ranks if rank.skipped is not None]
        skipped = any(reported)
        if not skipped:
            self.measured_tokens += tokens
        if not reported:
            self.skipped = None
        elif self.skipped is not None:
            self.skipped += skipped
        self.slowest_seconds.append(max([rank.step_seconds for rank in ranks]))
