"""Means of finite values."""

from __future__ import annotations

import math
from collections.abc import Sequence


def finite_mean(values: Sequence[float], weights: Sequence[int] | None = None) -> float:
    """Mean of finite values, of which there is one at least; finite itself, where their sum would be infinite too."""
    try:
        if weights is None:
            mean = math.fsum(values) / len(values)
        else:
            mean = math.fsum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)
    except (OverflowError, ValueError):  # ValueError: infinities of both signs
        mean = math.inf
    if math.isfinite(mean):
        return mean
    weights = weights or [1] * len(values)
    largest = max(abs(value) for value in values)
    shares = (value / largest * weight for value, weight in zip(values, weights, strict=True))
    return math.fsum(shares) / sum(weights) * largest
