"""How positions enter attention: rotary angles (arXiv:2104.09864) and ALiBi's slopes (Press et al., ICLR 2022)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from llmperf.accounting.rotary import rotary_frequencies

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from llmperf.types import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """Cosines and sines of all positions of a sequence, [seq_len, rotated width / 2]."""

    cosines: Any
    sines: Any
    neighbours: bool
    """Whether a rotation pairs neighbouring channels, not those of both halves."""

    def turned(self, states: Any) -> Any:
        """The first channels of [seq_len, width] turned, as many as there are angles for.

        Neighbours are put into halves: scores do not depend on the order of channels.
        """
        half = self.cosines.shape[1]
        first, rest = states[:, : 2 * half], states[:, 2 * half :]
        if self.neighbours:
            low, high = first[:, 0::2], first[:, 1::2]
        else:
            low, high = first[:, :half], first[:, half:]
        turned = [low * self.cosines - high * self.sines, high * self.cosines + low * self.sines]
        return np.concatenate([*turned, rest], axis=1)


def rotation(model: Model, seq_len: int, dtype: Any, *, windowed: bool) -> Rotation | None:
    """The rotation of a layer with a window or without; None for a model without rotary positions.

    Angles are computed in float32, as the training contract says.
    """
    if model.position_encoding != "rope":
        return None
    frequencies, scale = rotary_frequencies(model, windowed)
    angles = np.arange(seq_len, dtype=np.float32)[:, None] * frequencies
    cosines, sines = (function(angles.astype(dtype)) * dtype(scale) for function in (np.cos, np.sin))
    return Rotation(cosines=cosines, sines=sines, neighbours=model.rotated_pairs == "neighbours")


def alibi_slopes(model: Model) -> NDArray[np.float32] | None:
    """One slope for each head, 2^(-8/n), 2^(-16/n), ... with n the power of two at or below the number of heads; other
    heads take every second slope of 2n. None for a model without ALiBi."""
    if model.position_encoding != "alibi":
        return None
    heads = model.attention_heads
    below = 2 ** math.floor(math.log2(heads))
    eighths = [8 * (head + 1) for head in range(below)] + [4 * (2 * head + 1) for head in range(heads - below)]
    slopes: NDArray[np.float32] = np.exp2(-np.array(eighths, dtype=np.float32) / np.float32(below))
    return slopes


def score_scale(model: Model) -> float:
    """By which scores are multiplied: 1 / sqrt(width), and yarn's factor in latent attention, (0.1 c ln(f) + 1)^2."""
    scale = (model.query_scale_width or model.query_width) ** -0.5
    scaling = model.rope_scaling
    if scaling is None or not scaling.score_scale or scaling.factor <= 1:
        return float(scale)
    return float(scale * (0.1 * scaling.score_scale * math.log(scaling.factor) + 1.0) ** 2)
