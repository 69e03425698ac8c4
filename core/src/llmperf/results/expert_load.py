"""How evenly tokens were spread over experts, from the records of all ranks."""

from __future__ import annotations

from collections.abc import Sequence

from llmperf.runfolder.contents import RunRecords
from llmperf.types.expert_load import LayerLoad


def expert_load(records: RunRecords) -> tuple[LayerLoad, ...]:
    """The load of each layer with experts; empty unless all ranks recorded theirs."""
    return tuple(
        LayerLoad(layer=layer, tokens=tokens, imbalance=imbalance(tokens))
        for layer, tokens in records.experts.layers.items()
    )


def imbalance(tokens: Sequence[int]) -> float | None:
    """Most tokens of an expert / mean of all; None without tokens."""
    return max(tokens) * len(tokens) / sum(tokens) if any(tokens) else None
