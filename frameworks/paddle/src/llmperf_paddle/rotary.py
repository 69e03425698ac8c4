"""Rotary position embedding (Su et al., RoFormer, arXiv 2104.09864), halves rotated as in LLaMA checkpoints."""

from __future__ import annotations

import numpy as np
import paddle

DEFAULT_THETA = 10000.0


class Rotary:
    """Cosines and sines of a sequence, made in float32 when first used. No layer: amp must not round its tables."""

    def __init__(self, width: int, theta: float | None, *, fused: bool) -> None:
        self._width = width
        self._theta = theta or DEFAULT_THETA
        self._fused = fused
        self._tables: dict[tuple[int, str], tuple[paddle.Tensor, paddle.Tensor]] = {}

    def turn(self, query: paddle.Tensor, key: paddle.Tensor) -> tuple[paddle.Tensor, paddle.Tensor]:
        """Turn each pair of channels of [batch, seq_len, heads, width] by its position's angle."""
        cosines, sines = self._of(query.shape[1], query.dtype)
        if self._fused:
            from paddle.incubate.nn.functional import fused_rotary_position_embedding

            turned = fused_rotary_position_embedding(query, key, sin=sines, cos=cosines, use_neox_rotary_style=False)
            return turned[0], turned[1]
        return _rotate(query, cosines, sines), _rotate(key, cosines, sines)

    def _of(self, seq_len: int, dtype: paddle.dtype) -> tuple[paddle.Tensor, paddle.Tensor]:
        """Two of [1, seq_len, 1, width]."""
        key = (seq_len, str(dtype))
        if key not in self._tables:
            pair = angles(self._width, self._theta, seq_len)
            cosines, sines = (paddle.to_tensor(one)[None, :, None].astype(dtype) for one in pair)
            self._tables[key] = cosines, sines
        return self._tables[key]


def angles(width: int, theta: float, seq_len: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines of all positions, float32 [seq_len, width]; both halves are the same."""
    channels = np.arange(0, width, 2, dtype=np.float32) / np.float32(width)
    frequencies = np.float32(1.0) / np.float32(theta) ** channels
    turns = np.arange(seq_len, dtype=np.float32)[:, None] * frequencies
    both = np.concatenate([turns, turns], axis=-1)
    return np.cos(both), np.sin(both)


def _rotate(states: paddle.Tensor, cosines: paddle.Tensor, sines: paddle.Tensor) -> paddle.Tensor:
    low, high = paddle.chunk(states, 2, axis=-1)
    return states * cosines + paddle.concat([-high, low], axis=-1) * sines
