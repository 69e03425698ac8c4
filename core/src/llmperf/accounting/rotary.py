"""Frequencies of rotary positions, stretched or not: the same numbers for every framework."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from llmperf.types.models import Model

DEFAULT_THETA = 10000.0
"""RoFormer's base (arXiv:2104.09864, section 3.3)."""
BETA_FAST, BETA_SLOW = 32.0, 1.0
"""YaRN's turns for Llama (arXiv:2309.00071, section 3.2)."""


def rotary_frequencies(model: Model, windowed: bool = False) -> tuple[NDArray[np.float32], float]:
    """Radians per position of each rotated pair, float32 [rotated width / 2], and a scale for cosines and sines.

    Pairs are in the order of the channels, fastest first. `windowed`: those of a layer with a window, which differ if
    the model has a `window_rope_theta`. Computed in float64 and rounded once.
    """
    own_theta = model.window_rope_theta if windowed else None
    theta = own_theta or model.rope_theta or DEFAULT_THETA
    width = model.rotated_width
    frequencies = theta ** -(np.arange(0, width, 2, dtype=np.float64) / width)
    scaling = model.rope_scaling if own_theta is None else None
    if scaling is None:
        return frequencies.astype(np.float32), 1.0
    if scaling.method == "linear":
        return (frequencies / scaling.factor).astype(np.float32), 1.0
    positions = scaling.original_positions
    assert positions is not None  # as the next: checked in the file
    attention_scale = 1.0
    if scaling.method == "llama3":  # divided below the low frequency, kept above the high one, mixed between
        low, high = scaling.low_frequency, scaling.high_frequency
        assert low is not None
        assert high is not None
        kept = np.clip((positions * frequencies / (2 * math.pi) - low) / (high - low), 0.0, 1.0)
        frequencies = kept * frequencies + (1 - kept) * frequencies / scaling.factor
    else:  # divided where few turns are in the original length, kept where many are
        low, high = (
            width * math.log(positions / (turns * 2 * math.pi)) / (2 * math.log(theta))
            for turns in (scaling.beta_fast or BETA_FAST, scaling.beta_slow or BETA_SLOW)
        )
        if scaling.truncated:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, width - 1)
        places = np.arange(width // 2, dtype=np.float64)
        divided = np.clip((places - low) / (high - low or 0.001), 0.0, 1.0)
        frequencies = (1 - divided) * frequencies + divided * frequencies / scaling.factor
        given = scaling.attention_scale
        attention_scale = 0.1 * math.log(scaling.factor) + 1.0 if given is None else given
    return frequencies.astype(np.float32), attention_scale
