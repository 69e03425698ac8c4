"""Routing of a mixture and the load of its experts, as rows."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from llmperf.accounting.routing import routing_text
from llmperf.reporting import cells
from llmperf.reporting.cells import shown
from llmperf.types import Result, Row, Text


def routing_rows(result: Result) -> tuple[Row, ...]:
    """Routing of tokens; no row for a dense model."""
    if result.model.mixture is None:
        return ()
    return (Row(key="routing", label="routing", value=result.contract.routing, text=routing_text(result.contract)),)


def expert_rows(result: Result) -> Iterator[Row]:
    """The largest imbalance of a layer and where it is; none unless the framework counted tokens."""
    known = {load.layer: load.imbalance for load in result.expert_load if load.imbalance is not None}
    if not known:
        return
    layer = max(known, key=lambda place: known[place])
    idle = sum(count == 0 for load in result.expert_load for count in load.tokens)
    largest, middle = (
        Row(key=f"expert_imbalance_{name}", label="expert load, most / mean", value=value, rounding=cells.SIGNIFICANT)
        for name, value in (("largest", known[layer]), ("median", median(known.values())))
    )
    parts = (
        largest,
        Row(key="expert_imbalance_layer", label="layer", value=layer),
        middle,
        Row(key="idle_experts", label="experts without tokens", value=idle),
    )
    values = shown(largest), layer, shown(middle), cells.counted(len(known), "layer")
    text = Text("{} in layer {}, {} in the median of {}", *values)
    text = Text("{}; {} without tokens", text, cells.counted(idle, "expert")) if idle else text
    yield Row(key="expert_imbalance", label=largest.label, value=largest.value, text=text, parts=parts, own_words=True)
