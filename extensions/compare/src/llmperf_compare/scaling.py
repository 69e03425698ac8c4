"""Scaling efficiency of runs under one contract on different numbers of devices."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from statistics import median

from llmperf.reporting import PERCENT, Column, percent, sheet_values, shown
from llmperf.types import Row, Sheet, Text

from llmperf_compare.cost import Rates, rates_of, with_rows

EFFICIENCY = "scaling_efficiency"
SCALING_ASSUMES = (
    "scaling efficiency: tokens/s of a device against those of the fastest setting on the fewest devices, of one"
    " contract, device and framework (strong scaling: the global batch stays); layout and micro batch may differ"
)
SCALING_COLUMN = Column(title="scaling efficiency", importance=6, wraps=10, right=True, note=SCALING_ASSUMES)
"""Column for runs on different numbers of devices under one contract."""


def with_scaling(sheets: Sequence[Sheet]) -> list[Sheet]:
    """The sheets; those with a scaling efficiency have it in a table of many and in a section of their own."""
    rows = scaling_rows(sheets, lambda place: rates_of(sheet_values(sheets[place])))
    scaled = list(sheets)
    for place, row in rows.items():
        in_table = replace(row, text=None, rounding=PERCENT, column=SCALING_COLUMN)
        scaled[place] = with_rows(sheets[place], (in_table,), "scaling", "Scaling", (row,))
    return scaled


def scaling_rows(sheets: Sequence[Sheet], rates_at: Callable[[int], Rates]) -> dict[int, Row]:
    """The scaling efficiency of each sheet, by its place: throughput of a device / the same on the fewest devices.

    Sheets have the same contract, device model and framework: strong scaling. On the fewest devices, the one with the
    highest median counts. `rates_at` is asked only where numbers of devices differ.
    """
    groups: dict[Hashable, list[int]] = {}
    for place, sheet in enumerate(sheets):
        parts = tuple(sorted(sheet.contract.items()))
        device = sheet.cell("device")
        model = next((part.value for part in device.parts), device.text)
        key = (sheet.cell("model").text, parts, model, sheet.cell("layout").value, sheet.measured)
        groups.setdefault(key, []).append(place)
    rows: dict[int, Row] = {}
    for group in groups.values():
        if len({shown(sheets[place].cell("device")) for place in group}) < 2:
            continue
        rates = {place: rates_at(place) for place in group}
        members = [place for place in group if rates[place].tokens_per_second_per_device and rates[place].devices]
        fewest = min((rates[place].devices or 0 for place in members), default=0)
        kinds: dict[Hashable, list[float]] = {}  # speeds on the fewest devices, by the repeats that they are of
        for place in [place for place in members if rates[place].devices == fewest]:
            repeats, speed = sheets[place].repeats, rates[place].tokens_per_second_per_device or 0.0
            kinds.setdefault(place if repeats is None else repeats, []).append(speed)
        base = max(map(median, kinds.values()), default=0.0)
        for place in members:
            devices, speed = rates[place].devices or 0, rates[place].tokens_per_second_per_device or 0
            if devices > fewest:
                text = Text(
                    "{}: tokens/s of a device, {:g} devices against {:g}, under one contract (strong scaling)",
                    *(percent(speed / base), devices, fewest),
                )
                rows[place] = Row(key=EFFICIENCY, label="scaling efficiency", value=speed / base, text=text,
                                  own_words=True)  # fmt: skip
    return rows
