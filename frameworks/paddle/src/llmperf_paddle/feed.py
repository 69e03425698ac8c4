"""Micro batches as tensors on the device."""

from __future__ import annotations

from collections import deque

import llmperf
import numpy as np
import paddle
from llmperf.types import Plan

STEPS_KEPT = 16
"""The host may be so many steps ahead of copies that the device has yet to make."""


class Feed:
    """This rank's micro batches, copied to its device without waiting where that can be done."""

    def __init__(self, plan: Plan, rank: int) -> None:
        self._batches = llmperf.open_batches(plan, plan.layout.data_parallel_rank(rank))
        self._accumulation = plan.batch.gradient_accumulation
        self._pinned: deque[paddle.Tensor] = deque(maxlen=STEPS_KEPT * self._accumulation)

    def micro_batch(self) -> tuple[paddle.Tensor, paddle.Tensor]:
        """Inputs and labels of the next micro batch, int64 [micro_batch, seq_len] each."""
        return self._moved(self._batches.next_micro_batch())

    def step(self) -> tuple[paddle.Tensor, paddle.Tensor]:
        """Those of a whole step, one micro batch after the other, [micro_batch x accumulation, seq_len] each."""
        parts = [self._batches.next_micro_batch() for _ in range(self._accumulation)]
        return self._moved(np.concatenate(parts))

    def _moved(self, tokens: np.ndarray) -> tuple[paddle.Tensor, paddle.Tensor]:
        if not paddle.get_device().startswith("gpu"):
            moved = paddle.to_tensor(tokens)
        else:
            pinned = paddle.to_tensor(tokens, place=paddle.CUDAPinnedPlace())
            self._pinned.append(pinned)
            moved = pinned.cuda(blocking=False)
        return moved[:, :-1], moved[:, 1:]

    def close(self) -> None:
        """Let the files go."""
        self._batches.close()
