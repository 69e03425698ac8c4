"""Weights by name, a block of rows at a time: drawn from the seed, so that a model never has to be in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from llmperf import initial_normal
from numpy.typing import NDArray

Array = Any
"""An array of the pass's dtype, float32 or float64."""
BLOCK_ELEMENTS = 2**24
"""Weights in memory at once: 64 MiB in float32."""
FEWEST_ROWS = 64
"""Fewest rows of a matrix in a product: fewer would be slow."""


class Weights(Protocol):
    """The weights of a model by their names in published checkpoints."""

    def rows(self, name: str, shape: tuple[int, int], start: int, stop: int) -> Array:
        """Rows `start` to `stop` of a matrix [out, in]."""

    def vector(self, name: str, size: int) -> Array | None:
        """A norm's weight, a bias or sinks, [size]. None if it has its initial value: a norm that multiplies by 1, a
        bias or sinks of 0."""


class DrawnWeights:
    """Initial weights by `llmperf.initial_normal`; norms, biases and sinks have their initial values."""

    def __init__(self, seed: int, std: float, dtype: type[np.floating[Any]]) -> None:
        self._seed, self._std, self._dtype = seed, std, dtype

    def rows(self, name: str, shape: tuple[int, int], start: int, stop: int) -> Array:
        """Rows `start` to `stop` of a matrix [out, in]."""
        width = shape[1]
        drawn = initial_normal(self._seed, name, shape, self._std, start * width, stop * width)
        return drawn.reshape(stop - start, width).astype(self._dtype, copy=False)

    def vector(self, name: str, size: int) -> Array | None:
        """Always None."""
        return None


def row_blocks(rows: int, width: int, tokens: int) -> Iterator[tuple[int, int]]:
    """First and one-past-last row of each block of a matrix, at most `BLOCK_ELEMENTS` weights or `FEWEST_ROWS` rows."""
    each = max(1, min(BLOCK_ELEMENTS // width, max(FEWEST_ROWS, BLOCK_ELEMENTS // tokens)))
    for start in range(0, rows, each):
        yield start, min(start + each, rows)


def product(weights: Weights, states: Array, name: str, outputs: int, *, bias: bool = False) -> Array:
    """`states` [tokens, in] times the matrix `name`.weight [outputs, in], and its bias: [tokens, outputs]."""
    width = states.shape[1]
    result = np.empty((len(states), outputs), dtype=states.dtype)
    for start, stop in row_blocks(outputs, width, len(states)):
        result[:, start:stop] = states @ weights.rows(f"{name}.weight", (outputs, width), start, stop).T
    if bias and (added := weights.vector(f"{name}.bias", outputs)) is not None:
        result += added
    return result


def embedded(weights: Weights, ids: NDArray[np.int64], vocab_size: int, width: int, dtype: Any) -> Array:
    """Rows of the input embedding [tokens, width] of ids [tokens]; only rows that are needed are drawn."""
    different, places = np.unique(ids, return_inverse=True)
    table = np.empty((len(different), width), dtype=dtype)
    run_ends = np.flatnonzero(np.diff(different) != 1) + 1
    for run in np.split(np.arange(len(different)), run_ends):
        first = int(different[run[0]])
        for start, stop in row_blocks(len(run), width, 1):
            rows = weights.rows("model.embed_tokens.weight", (vocab_size, width), first + start, first + stop)
            table[run[start:stop]] = rows
    return table[places]


def rms_normed(weights: Weights, states: Array, name: str, eps: float, *, offset: bool) -> Array:
    """RMSNorm over the last axis (arXiv:1910.07467); with an offset the weight counts as 1 + itself."""
    width = states.shape[-1]
    squares = np.einsum("...i,...i->...", states, states) / states.dtype.type(width)
    normed = states / np.sqrt(squares + states.dtype.type(eps))[..., None]
    if (gain := weights.vector(f"{name}.weight", width)) is not None:
        normed *= gain + 1 if offset else gain
    return normed
