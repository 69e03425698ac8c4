"""Totals of the steps of one rank, computed record by record."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from itertools import pairwise

from llmperf.types.records import StepRecord

SHAPE_DIGITS = 9
"""Decimals of a step's time as a multiple of the first one: times that were multiplied agree in more."""
Range = tuple[float, float]
"""Lowest and highest value."""


class RankTotals:
    """Sums over the steps that one rank recorded."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.steps = 0
        self.measured_steps = 0
        self.measured_tokens = 0
        """Of its measured steps, without those that it skipped."""
        self.measured_seconds = 0.0
        """Sum of the times of its measured steps."""
        self.losses = False
        """Whether it reported a loss."""
        self.first: StepRecord | None = None
        """Step 1; None if it was not recorded."""
        self.nonfinite = False
        """Whether it reported a loss that was no number."""
        self.last: StepRecord | None = None
        self.rising = True
        """Whether its steps are recorded in rising order by number and time."""
        self.warmup_moments: Range | None = None
        """Of the steps before the measured ones: earliest and latest end, by its host's monotonic clock."""
        self.measured_moments: Range | None = None
        """The same of the measured steps."""
        self.first_seconds: float | None = None
        """Time of its first measured step."""
        self.first_again = 0
        """Later measured steps that took exactly as long as the first."""
        self._often, self._margin = 0.0, 0
        self._shape = hashlib.blake2b(digest_size=16)
        self._times = hashlib.blake2b(digest_size=16)

    def add(self, records: Sequence[StepRecord]) -> None:
        """Add the next records, in the order of the file."""
        measured = [record for record in records if record.measured]
        if self.last is None and records and records[0].step == 1:
            self.first = records[0]
        times = [record.step_seconds for record in measured]
        self.steps += len(records)
        self.measured_steps += len(measured)
        self.measured_tokens += sum([record.tokens for record in measured if not record.skipped])
        self.measured_seconds += sum(times)
        self.nonfinite = self.nonfinite or any(record.nonfinite is not None for record in records)
        self.losses = self.losses or self.nonfinite or any(record.loss is not None for record in records)
        # notice records out of order, of which there are none in a healthy file
        if self.rising:
            before = [self.last] if self.last is not None else []
            for earlier, later in pairwise([*before, *records]):
                if later.step <= earlier.step or later.monotonic < earlier.monotonic:
                    self.rising = False
                    break
        self.last = records[-1] if records else self.last
        self.measured_moments = _widened(self.measured_moments, [record.monotonic for record in measured])
        if len(measured) < len(records):
            warmup = [record.monotonic for record in records if not record.measured]
            self.warmup_moments = _widened(self.warmup_moments, warmup)
        self._times.update(array("d", times).tobytes())
        if self.first_seconds is None and times:
            self.first_seconds, self.first_again = times[0], -1
        first = self.first_seconds
        if first:
            self.first_again += times.count(first)
            self._shape.update(array("d", [round(seconds / first, SHAPE_DIGITS) for seconds in times]).tobytes())
        # boyer and Moore's majority vote
        often, margin = self._often, self._margin
        for seconds in times:
            if seconds == often:
                margin += 1
            elif margin:
                margin -= 1
            else:
                often, margin = seconds, 1
        self._often, self._margin = often, margin

    def may_repeat(self, share: float) -> bool:
        """Check whether so large a share of its measured steps, over one half, may have one and the same time."""
        return self._margin >= (2 * share - 1) * self.measured_steps

    @property
    def shape_digest(self) -> bytes:
        """Equal for two ranks whose measured steps took equally long up to one factor, step by step."""
        return self._shape.digest()

    @property
    def times_digest(self) -> bytes:
        """Equal for two ranks whose measured steps took equally long, one by one."""
        return self._times.digest()


def _widened(known: Range | None, values: Sequence[float]) -> Range | None:
    if not values:
        return known
    lowest, highest = min(values), max(values)
    return (lowest, highest) if known is None else (min(known[0], lowest), max(known[1], highest))
