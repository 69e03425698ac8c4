"""Synthetic text with a known entropy: a random walk over a shuffled vocabulary.

    token_t = permutation[(x_0 + d_1 + ... + d_t) mod V],   P(d = k) = 2^-k for k = 1..7,   P(d = 8) = 2^-7

Given the token before it, each token has 1.984375 bits, 1.3755 nats. A model reaches that loss by learning the
permutation's successors, which a small model does in a few hundred steps; before that it has ln(V).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from llmperf.tokens.data_sets import DataError, synthetic_fingerprint
from llmperf.tokens.draws import raw_uint64

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST_STEP = 8
STREAM = "data/synthetic"


def _step_table() -> NDArray[np.int64]:
    """Steps for each byte: 1 + the trailing zeros of its low seven bits, or 8 if all seven are zero."""
    bits = np.arange(256)[:, None] >> np.arange(7) & 1
    return np.where(bits.any(axis=1), bits.argmax(axis=1) + 1, LARGEST_STEP).astype(np.int64)


STEPS = _step_table()


class SyntheticTokens:
    """Endless sequences with random access: each depends on the seed and its index only."""

    def __init__(self, vocab_size: int, seq_len: int, seed: int) -> None:
        if vocab_size < LARGEST_STEP:
            raise DataError(
                "contract.dataset",
                f"'synthetic' needs a vocabulary of {LARGEST_STEP} or more; model.vocab_size is {vocab_size}",
            )
        self._vocab_size = vocab_size
        self._seq_len = seq_len
        self._seed = seed
        shuffled = raw_uint64(seed, f"{STREAM}/permutation", 0, vocab_size)
        self._permutation = np.argsort(shuffled, kind="stable").astype(np.int64)

    where = "contract.dataset"

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the figures that define the sequences."""
        return synthetic_fingerprint(self._vocab_size, self._seq_len, self._seed)

    def at(self, index: int) -> NDArray[np.int64]:
        """Sequence `index`, int64 [seq_len + 1]: a word for its first token, a byte for each step."""
        words = 1 + -(-self._seq_len // 8)
        drawn = raw_uint64(self._seed, STREAM, index * words, (index + 1) * words)
        steps = STEPS[drawn[1:].astype("<u8").view(np.uint8)[: self._seq_len]]
        first = np.array([drawn[0] % np.uint64(self._vocab_size)], dtype=np.int64)
        walk = np.cumsum(np.concatenate([first, steps])) % self._vocab_size
        tokens: NDArray[np.int64] = self._permutation[walk]
        return tokens

    def learnt(self, index: int) -> int:
        """All tokens: nothing is padded."""
        return self._seq_len
