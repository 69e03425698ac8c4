"""Rotary position embedding (Su et al., RoFormer, arXiv 2104.09864), halves rotated as in LLaMA checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import llmperf
import numpy as np
import paddle

if TYPE_CHECKING:
    from llmperf.types import Model


class Rotary:
    """Cosines and sines of a sequence, made in float32 when first used. No layer: amp must not round its tables."""

    def __init__(self, facts: Model, *, windowed: bool, fused: bool) -> None:
        self._frequencies, self._scale = llmperf.rotary_frequencies(facts, windowed)
        self._neighbours, self._fused = facts.rotated_pairs == "neighbours", fused
        self._tables: dict[tuple[int, str], tuple[paddle.Tensor, paddle.Tensor]] = {}

    def turn(self, query: paddle.Tensor, key: paddle.Tensor) -> tuple[paddle.Tensor, paddle.Tensor]:
        """Turn each pair of the first channels of [batch, seq_len, heads, width] by its position's angle.

        Where neighbours are pairs, they are put into halves first: scores do not depend on the order of channels.
        """
        turning = 2 * len(self._frequencies)
        if turning < query.shape[-1]:
            turned = self._turned(query[..., :turning], key[..., :turning])
            parts = zip(turned, (query[..., turning:], key[..., turning:]), strict=True)
            query, key = (paddle.concat([first, rest], axis=-1) for first, rest in parts)
            return query, key
        return self._turned(query, key)

    def _turned(self, query: paddle.Tensor, key: paddle.Tensor) -> tuple[paddle.Tensor, paddle.Tensor]:
        """All channels."""
        if self._neighbours:
            query, key = _in_halves(query), _in_halves(key)
        cosines, sines = self._of(query.shape[1], query.dtype)
        if self._fused:
            from paddle.incubate.nn.functional import fused_rotary_position_embedding

            turned = fused_rotary_position_embedding(query, key, sin=sines, cos=cosines, use_neox_rotary_style=False)
            return turned[0], turned[1]
        return _rotate(query, cosines, sines), _rotate(key, cosines, sines)

    def _of(self, seq_len: int, dtype: paddle.dtype) -> tuple[paddle.Tensor, paddle.Tensor]:
        """Two of [1, seq_len, 1, rotated width]; both halves are the same."""
        key = (seq_len, str(dtype))
        if key not in self._tables:
            angles = np.tile(np.arange(seq_len, dtype=np.float32)[:, None] * self._frequencies, 2)
            pair = (np.cos(angles) * np.float32(self._scale), np.sin(angles) * np.float32(self._scale))
            cosines, sines = (paddle.to_tensor(table)[None, :, None].astype(dtype) for table in pair)
            self._tables[key] = cosines, sines
        return self._tables[key]


class Rotaries:
    """The rotary encodings that all blocks of a model share."""

    def __init__(self, facts: Model, *, fused: bool) -> None:
        self.full = Rotary(facts, windowed=False, fused=fused)
        """Rotation of blocks that see all earlier tokens."""
        own = Rotary(facts, windowed=True, fused=fused)
        self.windowed = self.full if facts.window_rope_theta is None else own
        """Rotation of blocks with a window."""


def _in_halves(states: paddle.Tensor) -> paddle.Tensor:
    """Channels 0, 2, 4, ... and then 1, 3, 5, ..."""
    pairs = states.reshape([*states.shape[:-1], -1, 2])
    return pairs.transpose([0, 1, 2, 4, 3]).reshape(states.shape)


def _rotate(states: paddle.Tensor, cosines: paddle.Tensor, sines: paddle.Tensor) -> paddle.Tensor:
    low, high = paddle.chunk(states, 2, axis=-1)
    return states * cosines + paddle.concat([-high, low], axis=-1) * sines
