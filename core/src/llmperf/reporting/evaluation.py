"""Figures of the evaluation: whole ones beside the throughput, their parts in a table of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llmperf.reporting.cells import significant


def wholes(evaluation: Mapping[str, float | None]) -> dict[str, float | None]:
    """The figures that are no part of another: without `/` in their name."""
    return {name: value for name, value in evaluation.items() if "/" not in name}


def parts(evaluation: Mapping[str, float | None]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Headers and rows of the parts: one row for each part, one column for each whole; empty where there are none."""
    named = {tuple(name.split("/", 1)): value for name, value in evaluation.items() if "/" in name}
    columns = list(dict.fromkeys(whole for whole, _ in named))
    rows = [
        (part, *(significant(named.get((whole, part))) for whole in columns))
        for part in dict.fromkeys(part for _, part in named)
    ]
    return ("part", *columns), rows
