"""Micro batches as tensors on the device."""

from __future__ import annotations

import llmperf
import torch
from llmperf.types import Plan

from llmperf_torchkit.processes import own_rank


class Feed:
    """This rank's micro batches, copied to its device without waiting."""

    def __init__(self, plan: Plan, device: torch.device) -> None:
        self._batches = llmperf.open_batches(plan, plan.layout.data_parallel_rank(own_rank()))
        self._device = device
        self._padded = plan.spec.contract.packing == "padded"

    def next(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and labels of the next micro batch, int64 [micro_batch, seq_len] each.

        Padding is at the end of its row, so no token attends to it: as input it is id 0, as label it is -100,
        which the loss leaves out.
        """
        tokens = torch.from_numpy(self._batches.next_micro_batch())
        if self._device.type != "cpu":
            tokens = tokens.pin_memory().to(self._device, non_blocking=True)
        inputs, labels = tokens[:, :-1], tokens[:, 1:]
        return (inputs.clamp(min=0) if self._padded else inputs), labels

    @property
    def learnt(self) -> int:
        """Tokens of the last micro batch that are predicted, padding not counted; known on the host."""
        return self._batches.learnt

    @property
    def weight(self) -> float:
        """Weight of the mean loss of the last micro batch; 1 where nothing is padded."""
        return self._batches.weight

    def close(self) -> None:
        """Let the files go."""
        self._batches.close()
