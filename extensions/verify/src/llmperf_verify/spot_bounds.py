"""How far an honest run's losses may be from those computed in float32, by the recipe of its precision.

Measured with models of each kind (`docs/measurements.md`, section Spot check); bounds are about three times the largest
difference, or more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llmperf.types import Contract, Model

MEASURED_TOKENS = 128
"""Tokens of the sequences that bounds were measured with. Differences of shorter ones grow as 1 / sqrt(tokens)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Largest differences of a sequence's loss, in nats per token."""

    dense: float
    """Of dense models, and of mixtures whose tokens take experts by a table."""
    learned: float
    """Of mixtures with learned routing: a rounded score sends some tokens to other experts."""


BOUNDS = {
    "fp32": Bounds(dense=5e-5, learned=1e-4),
    "tf32": Bounds(dense=5e-4, learned=4e-3),
    "fp16": Bounds(dense=5e-4, learned=4e-3),
    "bf16": Bounds(dense=2e-3, learned=8e-3),
    "bf16_pure": Bounds(dense=2e-3, learned=8e-3),
    "fp8_tensorwise": Bounds(dense=2e-2, learned=4e-2),
    "fp8_rowwise": Bounds(dense=2e-2, learned=4e-2),
    "fp8_blockwise": Bounds(dense=2e-2, learned=4e-2),
}
"""By recipe. tf32 rounds operands to as many digits as fp16."""


def bound_of(model: Model, contract: Contract, tokens: int) -> float:
    """The bound of a sequence with so many learnt tokens."""
    bounds = BOUNDS[contract.precision]
    base = bounds.learned if model.mixture is not None and contract.routing == "learned" else bounds.dense
    return base * math.sqrt(max(1.0, MEASURED_TOKENS / tokens))
