"""The loss curve of a run, thinned so that its size is bounded."""

from __future__ import annotations

from llmperf.types.result import LossPoint

MOST_EVEN_POINTS = 10_000
"""Points at even distances. A shorter run has all its steps in the curve."""
MOST_NONFINITE_POINTS = 1_000
"""Further points whose loss is no number, the first of them."""


def distance(steps: int) -> int:
    """Steps from one even point to the next in a run of so many: a power of two, so that curves have common points."""
    every = 1
    while -(-steps // every) > MOST_EVEN_POINTS:
        every *= 2
    return every


class LossCurve:
    """Every 1st, 2nd, 4th, 8th ... of the points that are added, the last one, and those whose loss is no number."""

    def __init__(self) -> None:
        self.every = 1
        self.first: LossPoint | None = None
        self.last: LossPoint | None = None
        self._count = 0
        self._even: list[LossPoint] = []
        self._nonfinite: list[LossPoint] = []

    def add(self, point: LossPoint) -> None:
        """Add the next point, in the order of steps."""
        if self.first is None:
            self.first = point
        self.last = point
        if self._count % self.every == 0:
            if len(self._even) == MOST_EVEN_POINTS:
                self._even, self.every = self._even[::2], 2 * self.every
            if self._count % self.every == 0:
                self._even.append(point)
        if point.nonfinite is not None and len(self._nonfinite) < MOST_NONFINITE_POINTS:
            self._nonfinite.append(point)
        self._count += 1

    def points(self) -> tuple[LossPoint, ...]:
        """The curve so far, in the order of steps."""
        if self.every == 1:
            return tuple(self._even)
        last = [] if self.last is None else [self.last]
        return tuple(sorted({*self._even, *self._nonfinite, *last}, key=lambda point: point.step))
