"""The training loss, the loss of each sequence beside it, and numbers that are still on their way from the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from llmperf.types.records import DeferredScalar
from torch.nn import functional

PART_BYTES = 2**26
"""Float32 logits that are held at a time."""
FEWEST_PARTS = 8
"""Fewest parts of a micro batch; keeps the memory peak at that of the training loss."""


class SequenceLosses:
    """The losses of the sequences of one rank in one step, in the order of its micro batches."""

    def __init__(self) -> None:
        self._rows: list[torch.Tensor] = []
        self._copied: torch.Tensor | HostCopy | None = None

    def add(self, token_losses: torch.Tensor, labels: torch.Tensor) -> None:
        """A micro batch: the loss of each token and its label, [batch, seq_len] each; ignored ones have loss 0."""
        learnt = (labels != -100).sum(-1)
        self._rows.append(token_losses.sum(-1) / learnt)

    def copy(self) -> None:
        """After the step: copy them to the host without waiting."""
        if self._rows:
            losses = torch.cat(self._rows)
            self._rows = []
            self._copied = losses if losses.device.type == "cpu" else HostCopy(losses)

    def values(self) -> Sequence[float] | None:
        """Mean cross entropy of each sequence, in nats per token; None if there are none."""
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
    losses = []
    for rows, ids in zip(flat.split(each), wanted.split(each), strict=True):
        part = functional.cross_entropy(rows.float(), ids, reduction="none")
        losses.append(part.full_tensor() if hasattr(part, "full_tensor") else part)  # of divided logits: a DTensor
    _recorded.add(torch.cat(losses).view_as(labels), labels)


def mean_cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy in nats per token, in float32: logits [batch, seq_len, vocab], labels [batch, seq_len].

    Labels of -100 are left out of the mean.
    """
    record_logits(logits, labels)
    return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten())


def head_loss(head: torch.nn.Module, states: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy of a model's last states [batch, seq_len, width], by its output projection `head`.

    A head with `fuses_loss` takes the labels and returns the loss.
    """
    if getattr(head, "fuses_loss", False):
        loss: torch.Tensor = head(states, labels)
        return loss
    return mean_cross_entropy(head(states), labels)


class StepSums:
    """The micro batches of one rank's step: their mean loss, weighted where they have unequally many tokens."""

    def __init__(self) -> None:
        self.tokens = 0
        self._losses: list[torch.Tensor] = []
        self._weights: list[float] = []

    def add(self, mean_loss: torch.Tensor, tokens: int, weight: float) -> None:
        """A micro batch: its mean loss over `tokens`, and its weight in the mean over the step."""
        self._losses.append(mean_loss.detach())
        self._weights.append(weight)
        self.tokens += tokens

    def mean_loss(self) -> torch.Tensor:
        """Mean over the tokens of the step on this rank."""
        losses = torch.stack(self._losses)
        if all(weight == 1.0 for weight in self._weights):
            return losses.mean()
        pairs = zip(self._losses, self._weights, strict=True)
        return torch.stack([loss * weight for loss, weight in pairs]).sum() / sum(self._weights)


class HostCopy:
    """Numbers being copied to the host without anyone waiting for them."""

    __slots__ = ("_copied", "_event")

    def __init__(self, values: torch.Tensor) -> None:
        self._copied = torch.empty(values.shape, dtype=torch.float32, pin_memory=True)
        self._copied.copy_(values.detach(), non_blocking=True)
        self._event = torch.get_device_module(values.device).Event()
        self._event.record()

    def ready(self) -> bool:
        """Check whether the copy has arrived."""
        return bool(self._event.query())

    def tolist(self) -> list[float]:
        """All numbers, when they have arrived."""
        self._event.synchronize()
        return self._copied.tolist()

    def __float__(self) -> float:
        self._event.synchronize()
        return float(self._copied)


def to_come(value: torch.Tensor) -> bool | DeferredScalar:
    """True if a number is not 0, for `StepOutput.skipped`: at once where it is on the host, else as it comes."""
    return bool(value) if value.device.type == "cpu" else HostCopy(value)


def deferred(value: torch.Tensor | float) -> float | DeferredScalar:
    """A number for `StepOutput`: at once where it is on the host, else as it comes."""
    if isinstance(value, torch.Tensor) and value.device.type != "cpu":
        return HostCopy(value)
    return float(value)
