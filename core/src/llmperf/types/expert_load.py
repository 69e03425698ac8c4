"""How evenly the tokens of a run were spread over the experts of its model."""

from __future__ import annotations

from llmperf.types.frozen import dataclass
from llmperf.types.units import Count, NonNegative


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerLoad:
    """The load of one layer's experts in the measured window, over all ranks."""

    layer: Count
    """From 0, layers without experts included; multi-token layers follow the others."""
    tokens: tuple[Count, ...]
    """Tokens that each expert took; padding and skipped steps included, since they are computed too."""
    imbalance: NonNegative | None
    """Most tokens of an expert / mean of all: 1 if they are equal, experts / top-k if all tokens took the same ones.
    None without tokens."""
