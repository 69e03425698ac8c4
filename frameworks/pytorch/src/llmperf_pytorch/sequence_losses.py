"""The loss of each sequence of a step, computed beside the training loss and without a part in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch.nn import functional

PART_BYTES = 2**26
"""Float32 logits that are held at a time."""
FEWEST_PARTS = 8
"""Fewest parts of a micro batch; keeps the memory peak at that of the training loss."""


class SequenceLosses:
    """The losses of the sequences of one rank in one step, in the order of its micro batches."""

    def __init__(self) -> None:
        self._rows: list[torch.Tensor] = []
        self._copied: torch.Tensor | None = None
        self._arrived: torch.Event | None = None

    def add(self, token_losses: torch.Tensor, labels: torch.Tensor) -> None:
        """A micro batch: the loss of each token and its label, [batch, seq_len] each; ignored ones have loss 0."""
        learnt = (labels != -100).sum(-1)
        self._rows.append(token_losses.sum(-1) / learnt)

    def copy(self) -> None:
        """After the step: copy them to the host without waiting."""
        if not self._rows:
            return
        losses = torch.cat(self._rows)
        self._rows = []
        if losses.device.type == "cpu":
            self._copied = losses
            return
        self._copied = torch.empty(losses.shape, dtype=losses.dtype, pin_memory=True)
        self._copied.copy_(losses, non_blocking=True)
        self._arrived = torch.get_device_module(losses.device).Event()
        self._arrived.record()

    def values(self) -> Sequence[float] | None:
        """Mean cross entropy of each sequence, in nats per token; None if there are none."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return None if self._copied is None else self._copied.tolist()


_recorded: SequenceLosses | None = None


@contextmanager
def recorded_in(losses: SequenceLosses) -> Iterator[None]:
    """Loss functions record the losses of their sequences in `losses`."""
    global _recorded
    _recorded = losses
    try:
        yield
    finally:
        _recorded = None


def recording() -> bool:
    """Check whether a loss function should record."""
    return _recorded is not None


def record_token_losses(token_losses: torch.Tensor, labels: torch.Tensor) -> None:
    """Record a micro batch by the loss of each of its tokens; both have as many elements as labels [batch, seq_len]."""
    if _recorded is not None:
        _recorded.add(token_losses.detach().view_as(labels), labels)


@torch.no_grad()
def record_logits(logits: torch.Tensor, labels: torch.Tensor) -> None:
    """Record a micro batch by its logits [batch, seq_len, vocab], in parts; labels are [batch, seq_len]."""
    if _recorded is None:
        return
    flat, wanted = logits.detach().flatten(0, 1), labels.flatten()
    tokens = flat.shape[0]
    parts = max(FEWEST_PARTS, -(-tokens * logits.shape[-1] * 4 // PART_BYTES))
    each = -(-tokens // parts)
    losses = [
        _plain(functional.cross_entropy(flat[part].float(), wanted[part], reduction="none"))
        for part in [slice(first, first + each) for first in range(0, tokens, each)]
    ]
    _recorded.add(torch.cat(losses).view_as(labels), labels)


def _plain(losses: torch.Tensor) -> torch.Tensor:
    """Losses as a plain tensor; those of logits that are divided among ranks are a DTensor."""
    whole: torch.Tensor = losses.full_tensor() if hasattr(losses, "full_tensor") else losses
    return whole
