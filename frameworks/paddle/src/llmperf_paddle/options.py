"""Options of this plugin (`framework.*`). Imports no paddle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from llmperf import whole_number

if TYPE_CHECKING:
    from llmperf import OptionCheck

OPTIONS: Mapping[str, Sequence[object] | OptionCheck] = {
    "amp_level": ("O1", "O2"),
    "split_param": (False, True),
    "segment_size": whole_number(0),
}
"""`amp_level`: O2 (default) keeps 16-bit weights and float32 master weights, O1 float32 weights.
`split_param`: stage 1 divides each parameter's state evenly (fleet's V2), not whole parameters (V1, the default).
`segment_size`: at stage 3, parameters of at most so many elements stay whole."""
SEGMENT_SIZE = 2**20
"""Paddle's default of `framework.segment_size`."""


def amp_level(options: Mapping[str, object], precision: str) -> str | None:
    """How 16-bit precisions are mixed with float32; None where there is nothing to mix."""
    return str(options.get("amp_level", "O2")) if precision in ("bf16", "fp16") else None
