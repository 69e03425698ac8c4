"""Figures of one check, and transfers, beside those of other nodes."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from llmperf_screening.stages import Contact, Figure

NETWORK_TOLERANCE = 0.30
"""Share by which transfers may be slower than those of the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A figure of a node or of one of its devices."""

    rank: int
    figure: Figure
    others: float | None
    """Median of the figures of all other nodes and devices; None if there are none."""

    @property
    def slow(self) -> bool:
        """The figure is below the tolerance of its check."""
        value = self.figure.value
        return value is not None and self.others is not None and value < (1 - self.figure.tolerance) * self.others


def median(values: Iterable[float]) -> float | None:
    """The median; None without values."""
    known = list(values)
    return statistics.median(known) if known else None


def medians_of_others(values: Sequence[float]) -> list[float | None]:
    """For each value the median of all others, in the time of one sort; None if there are no others."""
    if len(values) < 2:
        return [None for _ in values]
    order = sorted(range(len(values)), key=values.__getitem__)
    low, high = (len(values) - 2) // 2, (len(values) - 1) // 2
    medians: list[float | None] = [None for _ in values]
    for place, index in enumerate(order):
        # without this value, those behind it move one place forward
        lower, upper = order[low + (low >= place)], order[high + (high >= place)]
        medians[index] = values[lower] / 2 + values[upper] / 2
    return medians


def compared(figures: Sequence[Iterable[Figure]]) -> Iterator[Compared]:
    """Every measured figure of each node, check by check."""
    checks: defaultdict[str, list[tuple[int, Figure, float]]] = defaultdict(list)
    for rank, of_node in enumerate(figures):
        for figure in of_node:
            if figure.value is not None:
                checks[figure.check].append((rank, figure, figure.value))
    for entries in checks.values():
        medians = medians_of_others([value for _, _, value in entries])
        for (rank, figure, _), others in zip(entries, medians, strict=True):
            yield Compared(rank=rank, figure=figure, others=others)


def better(known: Figure, second: Figure) -> Figure:
    """The higher figure if both are of one check and device, otherwise the known one."""
    same = (known.check, known.device) == (second.check, second.device)
    return second if same and (second.value or 0.0) > (known.value or 0.0) else known


def rates(transfers: Sequence[Iterable[Contact]]) -> dict[tuple[int, int], float]:
    """Bytes per second from one node to another, for each direction that was measured."""
    known: dict[tuple[int, int], float] = {}
    for rank, contacts in enumerate(transfers):
        for contact in contacts:
            if contact.sent_bytes_per_second is not None and contact.received_bytes_per_second is not None:
                known[rank, contact.peer] = contact.sent_bytes_per_second
                known[contact.peer, rank] = contact.received_bytes_per_second
    return known


def slow_directions(known: Mapping[tuple[int, int], float]) -> dict[tuple[int, int], float]:
    """The directions that are slower than the median, or a pair's other one, by more than NETWORK_TOLERANCE."""
    usual = max(known.values(), default=None) if len(known) == 2 else median(known.values())
    return {way: 1 - rate / usual for way, rate in known.items() if usual and rate < (1 - NETWORK_TOLERANCE) * usual}


def slow_pairs(transfers: Sequence[Iterable[Contact]]) -> set[tuple[int, int]]:
    """The pairs of nodes with a direction that is slow or carries nothing, the lower rank first."""
    known = rates(transfers)
    return {(min(way), max(way)) for way in (*slow_directions(known), *silent_directions(known))}


def silent_directions(known: Mapping[tuple[int, int], float]) -> list[tuple[int, int]]:
    """The directions in which not one byte arrived, although the connection was open."""
    return [way for way, rate in known.items() if rate == 0]


def faster(first: Contact | None, second: Contact) -> Contact:
    """The best of two transfers between the same nodes, for each direction; the second one if one of them failed."""
    if first is None or first.problem is not None or second.problem is not None:
        return second
    return replace(
        second,
        sent_bytes_per_second=max(first.sent_bytes_per_second or 0.0, second.sent_bytes_per_second or 0.0),
        received_bytes_per_second=max(first.received_bytes_per_second or 0.0, second.received_bytes_per_second or 0.0),
    )
