"""Means of finite values."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, ldexp

SCALE = 128
"""Values are divided by two to this power, which is exact, so that the sum of finite values is finite."""


def finite_mean(values: Sequence[float], weights: Sequence[int] | None = None) -> float:
    """Mean of finite values, of which there is one at least."""
    weights = weights or [1] * len(values)
    total = fsum(ldexp(value, -SCALE) * weight for value, weight in zip(values, weights, strict=True))
    return ldexp(total / sum(weights), SCALE)
