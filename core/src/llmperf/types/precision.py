"""Precision recipes: in which dtypes products, weights, gradients and optimiser states of a run are."""

from __future__ import annotations

from typing import Literal

from llmperf.types.devices import Dtype
from llmperf.types.frozen import dataclass

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
