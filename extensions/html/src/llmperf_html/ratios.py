"""Ratios of throughputs between kinds of runs, by the statistics of `llmperf compare`, computed when a page is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

from llmperf_compare.comparison import compare, speed_line
from llmperf_compare.ranking import Entry, Standing

MAX_PAIRS = 100
"""Pairs that have an interval; it takes about 20 ms to compute one."""


def ratios(standings: Sequence[Standing], places: Mapping[int, int], language: str) -> dict[str, str]:
    """For pairs of kinds of one contract with several runs each: a sentence about `{side}` and `{base}`.

    A kind is named by the index of its first run in the table; `places` has the index of a sheet by its `id`.
    """
    made: dict[str, str] = {}
    for standing in standings:
        repeated = [entry for entry in standing.entries if entry.measured and len(_speeds(entry)) > 1]
        for ours, theirs in permutations(repeated, 2):
            if len(made) == MAX_PAIRS:
                return made
            comparison = compare(_speeds(ours), _speeds(theirs))
            first, second = (min(places[id(sheet)] for sheet in entry.sheets) for entry in (ours, theirs))
            made[f"{first}/{second}"] = speed_line(comparison, "{side}", "{base}", language).text
    return made


def _speeds(entry: Entry) -> list[float]:
    """token/p/s of the complete runs."""
    complete = [sheet for sheet in entry.sheets if sheet.cell("status").value == "complete"]
    return [sheet.figure for sheet in complete if sheet.figure]
