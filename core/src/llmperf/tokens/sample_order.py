"""Which tokens are which sample, and which rank sees which sample in which step. Pure arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from llmperf.tokens.draws import raw_uint64

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from llmperf.types import Batch


def sample_count(tokens: int, seq_len: int) -> int:
    """Samples in a stream: sample i begins at token i x seq_len and has seq_len + 1 tokens."""
    return max(0, (tokens - 1) // seq_len)


def tokens_needed(samples: int, seq_len: int) -> int:
    """The shortest stream with that many samples."""
    return samples * seq_len + 1


def sample_bounds(index: int, seq_len: int) -> tuple[int, int]:
    """First and one-past-last token of a sample."""
    return index * seq_len, index * seq_len + seq_len + 1


def position(batch: Batch, steps_before: int, micro_step: int, data_parallel_rank: int, row: int) -> int:
    """Place in the global order of one row of the step after `steps_before` others.

    The rows of a step are the same whatever its layout.
    """
    slot = micro_step * batch.data_parallel + data_parallel_rank
    return steps_before * batch.global_batch + slot * batch.micro_batch + row


@dataclass(slots=True)
class SampleOrder:
    """The order in which samples are seen: each epoch a permutation of its own, fixed by the seed."""

    samples: int
    seed: int
    _epoch: int = -1
    _permutation: NDArray[np.int64] | None = None

    def __getitem__(self, position: int) -> int:
        """Sample at a place of the global order."""
        epoch, within = divmod(position, self.samples)
        if self._permutation is None or epoch != self._epoch:
            draws = raw_uint64(self.seed, f"data/order/{epoch}", 0, self.samples)
            self._epoch, self._permutation = epoch, np.argsort(draws, kind="stable")
        return int(self._permutation[within])
