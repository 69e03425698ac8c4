"""Nodes that measure with one another, and the rounds in which they do."""

from __future__ import annotations

from collections.abc import Sequence

ALL_PAIRS = 16
"""With more nodes, each measures with its two neighbours in a ring only."""

Pair = tuple[int, int]


def rounds(ranks: Sequence[int]) -> list[list[Pair]]:
    """Rounds of pairs, in which each node has at most one partner.

    Up to ALL_PAIRS nodes, each meets every other (the circle method of tournaments); more meet neighbours in a ring.
    """
    count = len(ranks)
    if count < 2:
        return []
    if count > ALL_PAIRS:
        edges = [(min(pair), max(pair)) for pair in ((ranks[i], ranks[(i + 1) % count]) for i in range(count))]
        even, odd, last = edges[0 : count - count % 2 : 2], edges[1::2], edges[count - 1 :] if count % 2 else []
        return [turn for turn in (even, odd, last) if turn]
    circle: list[int | None] = [*ranks, *([None] if count % 2 else [])]
    played = []
    for _ in range(len(circle) - 1):
        half = len(circle) // 2
        pairs = zip(circle[:half], reversed(circle[half:]), strict=True)
        played.append([(min(a, b), max(a, b)) for a, b in pairs if a is not None and b is not None])
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return played


def partners(pairs: Sequence[Pair], count: int) -> tuple[tuple[int, ...], ...]:
    """The partners of each of `count` nodes."""
    known: list[list[int]] = [[] for _ in range(count)]
    for first, second in pairs:
        known[first].append(second)
        known[second].append(first)
    return tuple(map(tuple, known))
