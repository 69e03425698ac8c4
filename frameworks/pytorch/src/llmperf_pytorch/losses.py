"""The training loss, and numbers that are still on their way from the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from llmperf_pytorch.sequence_losses import record_logits

if TYPE_CHECKING:
    from llmperf.types.records import DeferredScalar


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


class DeviceScalar:
    """A number being copied to the host without anyone waiting for it."""

    __slots__ = ("_copied", "_event")

    def __init__(self, value: torch.Tensor) -> None:
        self._copied = torch.empty((), dtype=torch.float32, pin_memory=True)
        self._copied.copy_(value.detach().reshape(()), non_blocking=True)
        self._event = torch.get_device_module(value.device).Event()
        self._event.record()

    def ready(self) -> bool:
        """Check whether the copy has arrived."""
        return bool(self._event.query())

    def __float__(self) -> float:
        self._event.synchronize()
        return float(self._copied)


def to_come(value: torch.Tensor) -> bool | DeferredScalar:
    """True if a number is not 0, for `StepOutput.skipped`: at once where it is on the host, else as it comes."""
    return bool(value) if value.device.type == "cpu" else DeviceScalar(value)


def deferred(value: torch.Tensor | float) -> float | DeferredScalar:
    """A number for `StepOutput`: at once where it is on the host, else as it comes."""
    if isinstance(value, torch.Tensor) and value.device.type != "cpu":
        return DeviceScalar(value)
    return float(value)
