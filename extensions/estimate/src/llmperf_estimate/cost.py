"""Cost of a training at an estimated throughput: the figures and words of reports, and how sure they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

from llmperf.reporting import AMOUNT, leaves, money, printable, rounded, shown
from llmperf.types import Row
from llmperf_compare.cost import ASSUMES, Costing, Rates, duration, training_rows
from llmperf_compare.prices import MOST_NAMED, matched_prices

from llmperf_estimate.types import Estimate, EstimatedCost

NO_ENERGY = "unknown: an estimate has no energy, only measurements have"
ESTIMATE_ASSUMES = ASSUMES.replace("the measured ones", "estimated")
TOO_LITTLE_MEMORY = "unknown: the memory does not suffice"
NEED_TIME = ("cost_per_million_tokens", "train_device_hours", "train_seconds", "train_cost")
IN_MONEY = ("cost_per_million_tokens", "train_cost")
FIGURES = ("cost_per_million_tokens", "train_seconds", "train_cost")
"""Figures that are shown with the expected error, in the order of preference; the last known one stands for all."""


def cost_rows_of(estimate: Estimate, costing: Costing, device_share: float, asked: str | None = None) -> list[Row]:
    """The rows of a training's cost as reports have them, at the estimated throughput, with its expected error."""
    speed, layout = estimate.tokens_per_second_per_device, estimate.layout
    rates = Rates(
        tokens_per_second_per_device=None if speed is None else speed / device_share,
        devices=layout.nodes * layout.devices_per_node * device_share,
        joules_per_token=None,
    )
    if costing.prices is not None:
        prices = matched_prices(costing.prices, [estimate.device_model], None)
        if (price := prices.of(estimate.device_model) or prices.of(asked)) is not None:
            prices = replace(prices, devices={estimate.device_model: price})
        costing = replace(costing, prices=prices)
    spec = estimate.spec
    adapters = spec.contract.lora is not None
    rows = list(training_rows(rates, costing, device=estimate.device_model, model=spec.model, adapters=adapters))
    for place, row in enumerate(rows):
        if row.key == "train_electricity_cost":
            rows[place] = replace(row, text=NO_ENERGY)
        elif row.key in NEED_TIME and row.value is None and estimate.time is None:
            rows[place] = replace(row, text=f"unknown: {estimate.time_problem}")
        elif row.key in IN_MONEY and row.value is None:
            rows[place] = replace(row, text="unknown without a price of the device")
        elif row.key == "price" and row.value is None and costing.prices is not None and costing.prices.devices:
            priced = list(costing.prices.devices)
            listed = ", ".join(priced[:MOST_NAMED]) + f" and {len(priced) - MOST_NAMED} more" * (
                len(priced) > MOST_NAMED
            )
            rows[place] = replace(row, text=f"{row.text}; it has {listed}")
    known = {row.key: row for row in rows if row.value is not None}
    figure = next((known[key] for key in reversed(FIGURES) if key in known), None)
    rows[-1] = replace(rows[-1], value=ESTIMATE_ASSUMES)
    return [*([] if figure is None else [_error_row(estimate, figure)]), *rows]


def _error_row(estimate: Estimate, figure: Row) -> Row:
    """`7,570 to 8,380 USD: ...`: a figure at the expected error of the throughput."""
    error, key, label = estimate.expected_error, "expected_error", f"{figure.label}, expected"
    if error is None:
        return Row(key=key, label=label, value=None, text="unknown: no published rows to compare estimates with")
    value, expected = float(figure.value or 0), error.throughput_largest
    ends = [value * max(0.0, 1 - expected), value * (1 + expected)]
    if figure.key == "train_seconds":
        amounts = " to ".join(map(duration, ends))
    else:
        amounts = f"{rounded(ends[0], AMOUNT)} to {money(ends[1], figure.unit)}"
    rows = f"{error.throughput_rows} published rows ({error.nearest}) were up to {expected:.0%} off"
    text = f"{amounts}: {rows}, half of them within {error.throughput:.0%}"
    if error.outside:
        text += f"; further off is likely, as no published throughput has {' or '.join(error.outside)}"
    for link in estimate.rates.links if estimate.rates and estimate.layout.nodes > 1 else ():
        if link.scope == "cluster":
            network = link.bytes_per_second * estimate.layout.devices_per_node * 8e-9
            advice = "" if "--network" in link.source else "; give yours by --network GBIT"
            text += f"; holds for a network of {network:,.4g} Gb/s a node{advice}"
    return Row(key=key, label=label, value=expected, text=text)


def cost_document(rows: list[Row]) -> EstimatedCost:
    """The rows as the `cost` of the document of an estimate."""
    values = {row.key: row.value for row in leaves(rows)}
    return EstimatedCost(**{part.name: values.get(part.name) for part in fields(EstimatedCost)})  # type: ignore[arg-type]


def cost_facts(estimate: Estimate, rows: list[Row]) -> Iterator[tuple[str, str]]:
    """Name and value of each line."""
    if estimate.fits is False:
        yield "cost of a training", TOO_LITTLE_MEMORY
        return
    yield from ((row.label, printable(shown(row), 1000)) for row in rows)
