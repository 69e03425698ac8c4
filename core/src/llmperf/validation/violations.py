"""Figures held against what they should be."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from llmperf.validation.catalogue import Violation

EXACT = 1e-6
"""Relative; what is left of a recomputed figure after JSON."""


def close(found: float, expected: float, relative: float = EXACT) -> bool:
    """Whether two figures agree; relative to the expected one. What overflowed to infinity agrees with nothing."""
    if not (isfinite(found) and isfinite(expected)):
        return False
    return abs(found - expected) <= relative * max(abs(expected), abs(found) if expected == 0 else 0.0)


def differs(path: str, found: float | int | None, expected: float | int, because: str) -> Iterator[Violation]:
    """A violation where two whole numbers are not the same."""
    if found != expected:
        yield path, f"expected {figure(expected)} ({because}), found {figure(found)}"


def deviates(path: str, found: float, expected: float, because: str, relative: float = EXACT) -> Iterator[Violation]:
    """A violation where two figures are further apart than `relative`."""
    if not close(found, expected, relative):
        yield path, f"expected {figure(expected)} ({because}), found {figure(found)}"


def figure(value: float | int | None) -> str:
    """A number as a message shows it: integers whole, others to six digits."""
    if value is None:
        return "null"
    return str(value) if isinstance(value, int) else f"{value:.6g}"
