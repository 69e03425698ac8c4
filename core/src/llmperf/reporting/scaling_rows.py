"""Scaling efficiency of runs under one contract on different numbers of devices."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from statistics import median

from llmperf.reporting import cells
from llmperf.results.cost import Rates
from llmperf.types import Row, Sheet


def scaling_rows(sheets: Sequence[Sheet], rates: Sequence[Rates]) -> dict[int, Row]:
    """The scaling efficiency of each sheet, by its place: throughput of a device / the same on the fewest devices.

    Only of sheets with the same contract, device model and framework, on more devices than some other: strong scaling,
    as the global batch is part of the contract. On the fewest devices, the setting with the highest median counts.
    """
    groups: dict[Hashable, list[int]] = {}
    for place, sheet in enumerate(sheets):
        if rates[place].tokens_per_second_per_device and rates[place].devices:
            parts = tuple(sorted(sheet.contract.items()))
            key = (sheet.cell("model").text, parts, _device(sheet), sheet.cell("layout").value, sheet.measured)
            groups.setdefault(key, []).append(place)
    rows: dict[int, Row] = {}
    for members in groups.values():
        fewest = min(rates[place].devices or 0 for place in members)
        base = _fastest([place for place in members if rates[place].devices == fewest], sheets, rates)
        for place in members:
            devices, speed = rates[place].devices or 0, rates[place].tokens_per_second_per_device or 0
            if devices > fewest:
                against = f"{devices:g} devices against {fewest:g}, under one contract (strong scaling)"
                text = f"{cells.percent(speed / base)}: tokens/s of a device, {against}"
                rows[place] = Row(key="scaling_efficiency", label="scaling efficiency", value=speed / base, text=text)
    return rows


def _device(sheet: Sheet) -> object:
    return next((part.value for part in sheet.cell("device").parts), sheet.cell("device").text)


def _fastest(places: Sequence[int], sheets: Sequence[Sheet], rates: Sequence[Rates]) -> float:
    """The highest median over repeats."""
    kinds: dict[Hashable, list[float]] = {}
    for place in places:
        speed, repeats = rates[place].tokens_per_second_per_device or 0, sheets[place].repeats
        kinds.setdefault(place if repeats is None else repeats, []).append(speed)
    return max(map(median, kinds.values()))
