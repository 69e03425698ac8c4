"""The training loss, and numbers that are still on their way from the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from llmperf.types.records import DeferredScalar


def mean_cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy in nats per token, in float32: logits [batch, seq_len, vocab], labels [batch, seq_len]."""
    return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten())


class DeviceScalar:
    """A number being copied to the host without anyone waiting for it."""

    __slots__ = ("_copied", "_event")

    def __init__(self, value: torch.Tensor) -> None:
        self._copied = torch.empty((), dtype=torch.float32, pin_memory=True)
        self._copied.copy_(value.detach().reshape(()), non_blocking=True)
        self._event = torch.get_device_module(value.device).Event()
        self._event.record()

    def ready(self) -> bool:
        """Whether the copy has arrived."""
        return bool(self._event.query())

    def __float__(self) -> float:
        self._event.synchronize()
        return float(self._copied)


def deferred(value: torch.Tensor | float) -> float | DeferredScalar:
    """A number for `StepOutput`: at once where it is on the host, else as it comes."""
    if isinstance(value, torch.Tensor) and value.device.type != "cpu":
        return DeviceScalar(value)
    return float(value)
