"""FLOP counts and their workload, precision recipes, and MFU under each convention."""

from __future__ import annotations

from typing import Literal

from llmperf.types.devices import Confidence, Dtype
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


Precision = Literal["fp32", "tf32", "bf16", "bf16_pure", "fp16", "fp8_tensorwise", "fp8_rowwise", "fp8_blockwise"]
"""Names of the recipes; `data/precisions.toml` defines them."""

Scaling = Literal["none", "loss", "tensorwise", "rowwise", "blockwise"]
"""Quantities that are scaled to the range of a narrow dtype. `loss`: the loss, and so all gradients; `tensorwise`,
`rowwise`, `blockwise`: operands of products, with a scale for each tensor, row or block."""

DTYPE_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1}
"""Bytes of one element, by dtype."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionRecipe:
    """One entry of `data/precisions.toml`."""

    name: Precision
    """The name for `contract.precision`."""
    products: Dtype
    """Dtype of the matrix products that the recipe covers."""
    covers: Literal["all", "block projections"] = "all"
    """`block projections`: the projections of attention and feed-forward layers in the transformer blocks, not
    attention itself, router and output projection."""
    rest: Dtype
    """Dtype of all other products, and of activations between them."""
    scaling: Scaling = "none"
    """The scaled quantities."""
    weights: Dtype
    """Dtype of the weights that products are computed with before they are scaled."""
    gradients: Dtype
    """Dtype of gradients, also while they are reduced unless `tuning.accumulation_dtype` is fp32."""
    master_weights: Dtype | None = None
    """Dtype of the copy of the weights that the optimiser updates; None if it updates the weights themselves."""
    optimizer_states: Dtype
    """Dtype of both moments of AdamW."""
    source: str
    """Publication of the recipe."""

    @property
    def mixed(self) -> bool:
        """Products have two dtypes, each with a peak of its own."""
        return self.products != self.rest

    @property
    def rest_bytes(self) -> int:
        """Bytes of one element of activations."""
        return DTYPE_BYTES[self.rest]

    @property
    def weight_bytes(self) -> int:
        """Bytes of one weight."""
        return DTYPE_BYTES[self.weights]

    @property
    def gradient_bytes(self) -> int:
        """Bytes of one gradient."""
        return DTYPE_BYTES[self.gradients]

    @property
    def optimizer_bytes(self) -> int:
        """Bytes for each parameter of master weights and both moments."""
        master = DTYPE_BYTES[self.master_weights] if self.master_weights else 0
        return master + 2 * DTYPE_BYTES[self.optimizer_states]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakPart:
    """The products of one dtype in a work-weighted peak."""

    dtype: Dtype
    """Dtype of the products."""
    share: NonNegative
    """Share of the FLOPs in matrix products that the convention counts."""
    peak_flops_per_second: NonNegative
    """Peak of one rank's share of a device, for this dtype."""
    peak_source: str
    """Publication or measurement of that peak."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedPeak:
    """FLOP/s of a device that computes each product at the peak of its dtype: 1 / sum of share / peak."""

    flops_per_second: NonNegative
    """Peak of one rank's share of a device."""
    parts: tuple[PeakPart, ...]
    """One for each dtype; the shares add up to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mfu:
    """Model (or hardware) FLOPs utilisation under one convention."""

    convention: ConventionName
    """The convention, which determines the counted operations."""
    headline: bool
    """Published tables are compared with this convention."""
    flops_per_token: NonNegative
    """The numerator, FLOPs for one trained token."""
    formula: str
    """Formula with the figures filled in."""
    leaves_out: tuple[str, ...]
    """Terms that the device computes and this convention does not count."""
    counted_by: str = "core"
    """Name of the extension that counted the FLOPs, or `core`."""
    peak_flops_per_second: NonNegative | None
    """Peak of one rank's share of a device."""
    peak_dtype: str | None
    """Dtype the peak holds for."""
    peak_source: str | None
    """Publication or measurement of the peak."""
    peak_confidence: Confidence | None
    """Reliability of the peak; `low` if it is derived or from a secondary source."""
    peak_date: str | None
    """ISO date of that source, or of the measurement."""
    value: NonNegative | None
    """token/p/s x flops_per_token / peak; None without a peak or a throughput."""
    of_measured_peak: NonNegative | None = None
    """The same by `Result.measured_peak`; None without one."""
    weighted_peak: WeightedPeak | None = None
    """The peak of products in several dtypes together; None for products in one dtype, without peaks, and where an
    extension counted the FLOPs."""
    of_weighted_peak: NonNegative | None = None
    """The same as `value` by `weighted_peak`; None without one."""
