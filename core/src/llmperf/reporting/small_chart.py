"""Small figures over time as one line of block characters."""

from __future__ import annotations

from collections.abc import Sequence

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII = "_.-=+*%#"
"""Levels where the output cannot show blocks."""
LEAST_RANGE = 0.02
"""Share of the largest value below which differences are not enlarged further."""


def sparkline(values: Sequence[float], width: int = 12, encoding: str | None = "utf-8") -> str:
    """The last `width` values from the least to the largest; a range below LEAST_RANGE is drawn as flat as it is."""
    shown = values[-width:]
    if len(shown) < 2:
        return ""
    levels = BLOCKS if shows_blocks(encoding) else ASCII
    low, high = min(shown), max(shown)
    span = max(high - low, LEAST_RANGE * abs(high))
    if span == 0:
        return levels[0] * len(shown)
    base = (high + low - span) / 2
    return "".join(levels[min(len(levels) - 1, int((value - base) / span * len(levels)))] for value in shown)


def shows_blocks(encoding: str | None) -> bool:
    """Check whether text in this encoding can contain BLOCKS."""
    try:
        BLOCKS.encode(encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True
