"""The loss of each sequence of a step, and numbers that are still on their way from the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import paddle
from llmperf.types.records import DeferredScalar
from paddle.nn import functional


class HostCopy:
    """Numbers being copied to the host without anyone waiting for them."""

    __slots__ = ("_copied", "_event")

    def __init__(self, values: paddle.Tensor) -> None:
        numbers = values.detach().astype("float32")
        pinned = values.place.is_gpu_place()
        self._copied = numbers._copy_to(paddle.CUDAPinnedPlace(), False) if pinned else numbers
        self._event = paddle.device.Event()
        self._event.record()

    def ready(self) -> bool:
        """Check whether the device has reached it."""
        return bool(self._event.query())

    def tolist(self) -> list[float]:
        """All numbers, when they have arrived."""
        self._event.synchronize()
        values: list[float] = self._copied.tolist()
        return values

    def __float__(self) -> float:
        self._event.synchronize()
        return float(self._copied.item())


def skipped(scaler: Any) -> bool | DeferredScalar | None:
    """Check whether a loss scaler has left out its last update; None where this version of Paddle does not show it.

    No public name tells: `GradScaler.step` notes it for its `update` (Paddle 3.3.1).
    """
    if scaler is None:
        return False
    found = getattr(scaler, "_cache_found_inf", None)
    if not isinstance(found, paddle.Tensor):
        return None if found is None else bool(found)
    return bool(found.item()) if found.place.is_cpu_place() else HostCopy(found)


def deferred(value: paddle.Tensor) -> float | DeferredScalar:
    """A number for `StepOutput`: at once where it is on the host, else as it comes."""
    return float(value.item()) if value.place.is_cpu_place() else HostCopy(value)


PART_BYTES = 2**26
"""Float32 logits that are held at a time."""
FEWEST_PARTS = 8
"""Fewest parts of a micro batch; keeps the memory peak at that of the training loss."""


class SequenceLosses:
    """The losses of the sequences of one rank in one step, in the order of its micro batches."""

    def __init__(self) -> None:
        self._rows: list[paddle.Tensor] = []
        self._copied: paddle.Tensor | HostCopy | None = None

    def add(self, token_losses: paddle.Tensor) -> None:
        """A micro batch: the loss of each token, [batch, seq_len]."""
        self._rows.append(token_losses.mean(axis=-1))

    def copy(self) -> None:
        """After the step: copy them to the host without waiting."""
        if self._rows:
            losses = paddle.concat(self._rows)
            self._rows = []
            self._copied = losses if losses.place.is_cpu_place() else HostCopy(losses)

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


def record_token_losses(token_losses: paddle.Tensor, labels: paddle.Tensor) -> None:
    """Record a micro batch by the loss of each of its tokens; labels are [batch, seq_len]."""
    if _recorded is not None:
        _recorded.add(token_losses.detach().reshape(labels.shape))


@paddle.no_grad()
def record_logits(logits: paddle.Tensor, labels: paddle.Tensor) -> None:
    """Record a micro batch by its logits [batch, seq_len, vocab], in parts; labels are [batch, seq_len]."""
    if _recorded is None:
        return
    flat, wanted = logits.detach().flatten(0, 1), labels.flatten()
    tokens = flat.shape[0]
    parts = max(FEWEST_PARTS, -(-tokens * flat.shape[-1] * 4 // PART_BYTES))
    each = -(-tokens // parts)
    losses = [
        functional.cross_entropy(flat[part].astype("float32"), wanted[part], reduction="none").flatten()
        for part in [slice(first, first + each) for first in range(0, tokens, each)]
    ]
    _recorded.add(paddle.concat(losses).reshape(labels.shape))
