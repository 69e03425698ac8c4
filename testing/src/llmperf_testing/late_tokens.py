"""Tokens that the kit draws while the ranks train: what nobody can know before the step, nobody can compute before it.

From a step on, each micro batch that `next_micro_batch` returns has other ids than the plan's data. A framework that
trains on what it is given follows; one that plays back losses does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from llmperf.types import Plan
    from numpy.typing import NDArray

ALPHABET = 24
"""Ids that are drawn: so few that the loss falls again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LateTokens:
    """Tokens by seed, data-parallel rank and place: the same wherever they are drawn."""

    seed: int
    """The kit's."""
    first_step: int
    """The first step that has them."""

    def micro_batch(self, plan: Plan, rank: int, index: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Micro batch `index`, from 0, of a data-parallel rank: the plan's `rows`, or others of that shape."""
        if index < (self.first_step - 1) * plan.batch.gradient_accumulation:
            return rows
        place = rank * 2**32 + index
        words = np.random.Philox(key=np.array([self.seed, place], dtype=np.uint64)).random_raw(rows.size)
        return (words % min(ALPHABET, plan.spec.model.vocab_size)).astype(rows.dtype).reshape(rows.shape)
