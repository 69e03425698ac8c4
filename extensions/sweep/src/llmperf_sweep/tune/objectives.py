"""Objectives of a search, and their place in a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Figure = Callable[[Mapping[str, Any]], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A figure of a result that is to be high or low."""

    name: str
    """Name for `--objective`."""
    title: str
    """For people, with the unit."""
    highest: bool
    """More is better."""
    figure: Figure
    """Takes `result.metrics`; None if the result does not have it."""

    def better(self, first: float, second: float) -> bool:
        """Check whether `first` is better than `second`."""
        return first > second if self.highest else first < second


def _memory(metrics: Mapping[str, Any]) -> float | None:
    peaks = [rank["peak_bytes"] for rank in metrics["rank_memory"]]
    return None if not peaks or None in peaks else float(max(peaks))


OBJECTIVES = {
    objective.name: objective
    for objective in (
        Objective(
            name="throughput",
            title="token/p/s",
            highest=True,
            figure=lambda metrics: metrics["tokens_per_second_per_device"],
        ),
        Objective(name="energy", title="J/token", highest=False, figure=lambda metrics: metrics["joules_per_token"]),
        Objective(name="memory", title="peak bytes of a rank", highest=False, figure=_memory),
    )
}
"""By name; the first is the default."""
