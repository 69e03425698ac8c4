"""FLOP counts: what they depend on, and the count under each convention."""

from __future__ import annotations

from typing import Literal

from llmperf.types.frozen import dataclass
from llmperf.types.units import Count, NonNegative, Positive

ConventionName = Literal["nominal", "exact", "palm", "causal", "hfu", "full", "windowed"]
"""The conventions that results have an MFU for; `data/conventions.toml` defines them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Inputs of a FLOP count besides the model."""

    seq_len: Positive
    """Tokens in one sequence."""
    gradient_checkpointing: bool = False
    """The forward pass is computed again during the backward pass."""
    recomputed_share: NonNegative = 1
    """Share of the blocks whose matrix products are computed again, with gradient checkpointing."""
    padded: bool = False
    """Sequences are records of unknown length, padded to seq_len. Tokens are then counted without padding, and what
    attention costs each of them is not known."""
    lora_parameters: Count | None = None
    """Trainable parameters of the adapters; None when all weights are trained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlopsPerToken:
    """FLOPs that one convention counts for one trained token."""

    convention: ConventionName
    """The convention, which determines the counted operations."""
    flops: NonNegative
    """FLOPs for one token, forward and backward."""
    formula: str
    """Formula with the figures filled in, so that anyone can check it."""
    leaves_out: tuple[str, ...] = ()
    """Terms that the device computes and this convention does not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlopCount:
    """The numerator of MFU under every convention."""

    parameters: Positive
    """Counted exactly from the model's facts."""
    active_parameters: Positive | None = None
    """Parameters that one token passes: of a mixture only the chosen routed experts. None if not counted."""
    embedding_parameters: Count
    """Input embedding: looked up, not multiplied."""
    nominal_parameters: Positive
    """The round figure in the model's name."""
    per_token: tuple[FlopsPerToken, ...]
    """One entry for each convention."""
    counted_by: str = "core"
    """Name of the extension that counted, or `core`; set by the core."""

    def of(self, convention: str) -> FlopsPerToken:
        """The count under one convention; KeyError if it is not there."""
        for entry in self.per_token:
            if entry.convention == convention:
                return entry
        raise KeyError(convention)
