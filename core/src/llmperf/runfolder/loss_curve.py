"""The loss curve of a run, thinned so that its size is bounded."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, ldexp
from typing import TYPE_CHECKING

from llmperf.types.result import LossPoint

if TYPE_CHECKING:
    from llmperf.types.records import StepRecord

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
    """Every 1st, 2nd, 4th, 8th ... of the steps that are added, the last one, and those whose loss is no number."""

    def __init__(self) -> None:
        self.every = 1
        self._count = 0
        self._even: list[LossPoint] = []
        self._nonfinite: list[LossPoint] = []
        self._last: tuple[int, Sequence[StepRecord], str | None] | None = None

    def add(self, step: int, ranks: Sequence[StepRecord], nonfinite: str | None) -> None:
        """Add the next step with the records of its ranks, and what its loss was if it was no number."""
        even = self._count % self.every == 0
        if even and len(self._even) == MOST_EVEN_POINTS:
            self._even, self.every = self._even[::2], 2 * self.every
            even = self._count % self.every == 0
        few = nonfinite is not None and len(self._nonfinite) < MOST_NONFINITE_POINTS
        if even or few:
            point = _point(step, ranks, nonfinite)
            self._even += [point] * even
            self._nonfinite += [point] * few
        self._last = step, ranks, nonfinite
        self._count += 1

    def points(self) -> tuple[LossPoint, ...]:
        """The curve so far, in the order of steps."""
        if self.every == 1 or self._last is None:
            return tuple(self._even)
        points = {*self._even, *self._nonfinite, _point(*self._last)}
        return tuple(sorted(points, key=lambda point: point.step))


def _point(step: int, ranks: Sequence[StepRecord], nonfinite: str | None) -> LossPoint:
    norms = [rank.grad_norm for rank in ranks if rank.grad_norm is not None]
    return LossPoint(
        step=step,
        loss=mean_loss(ranks) if nonfinite is None else None,
        nonfinite=nonfinite,
        grad_norm=finite_mean(norms) if norms else None,
    )


def mean_loss(ranks: Sequence[StepRecord]) -> float | None:
    """Over tokens, as ranks have unequally many where sequences are padded; over ranks where none tells its tokens."""
    known = [(rank.loss, rank.tokens) for rank in ranks if rank.loss is not None]
    losses, tokens = [loss for loss, _ in known], [count for _, count in known]
    if len(set(tokens)) > 1 and min(tokens) >= 0:
        return finite_mean(losses, tokens)
    return finite_mean(losses) if losses else None


def finite_mean(values: Sequence[float], weights: Sequence[int] | None = None) -> float:
    """Mean of finite values, of which there is one at least; their sum may be beyond the range of floats."""
    weights = weights or [1] * len(values)
    total = fsum(ldexp(value, -128) * weight for value, weight in zip(values, weights, strict=True))
    return ldexp(total / sum(weights), 128)
