"""Two clocks of one host beside one another: a clock that was set differs once, a scaled one all the time."""

from __future__ import annotations

from typing import NamedTuple

SHORTEST = 0.5
"""Seconds of an interval: shorter ones say little, as a busy host may pause a process between two readings."""
RATE = 0.02
"""Share by which two clocks may differ in an interval; time servers change the rate of a clock by at most 0.0005."""
APART_SECONDS = 0.05
"""Time that may pass between the readings of two clocks at one moment."""


class Clocks(NamedTuple):
    """The seconds that two clocks showed for the same time."""

    first: float
    second: float

    @property
    def alike(self) -> bool:
        """They differ by no more than the rates of clocks do."""
        return abs(self.first - self.second) <= RATE * max(self.first, self.second) + APART_SECONDS


class ClockRates:
    """Lengths of intervals of one run by either clock, reading by reading."""

    __slots__ = ("_before", "_intervals", "_longer", "_shorter")

    def __init__(self) -> None:
        self._before: tuple[float, float] | None = None
        self._intervals = 0
        self._longer: list[Clocks] = []
        self._shorter: list[Clocks] = []

    def add(self, first: float, second: float) -> None:
        """Add what both clocks show at one moment."""
        if self._before is not None:
            passed = Clocks(first - self._before[0], second - self._before[1])
            if max(passed) < SHORTEST:
                return
            self._intervals += 1
            if not passed.alike:
                (self._longer if passed.first > passed.second else self._shorter).append(passed)
        self._before = first, second

    @property
    def contradiction(self) -> Clocks | None:
        """The intervals that are longer (or shorter) by the first clock, added up; None unless most are, and two."""
        wrong = max(self._longer, self._shorter, key=len)  # a late reading makes one longer and the next shorter
        if len(wrong) < 2 or 2 * len(wrong) <= self._intervals:
            return None
        return Clocks(sum(each.first for each in wrong), sum(each.second for each in wrong))
