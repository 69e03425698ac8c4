"""How long a rank waits for its communication with other ranks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed

if TYPE_CHECKING:
    from llmperf.types import Device
    from llmperf.types.devices import DeviceEvent


class Waits:
    """Adds up the time between pairs of device events. Neither setting nor reading them waits for the device."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._begun: DeviceEvent | None = None
        self._pending: deque[tuple[DeviceEvent, DeviceEvent]] = deque()
        self._seconds = 0.0

    def after_gradients(self, loss: torch.Tensor) -> None:
        """Begin a wait when the backward pass of `loss` has computed all gradients, and only communicates."""
        # callbacks run in the order in which they were queued: this one is queued by the first node of the backward
        # pass, before DistributedDataParallel queues the callback in which it waits for its reductions
        loss.register_hook(lambda _: torch.autograd.Variable._execution_engine.queue_callback(self.begin))

    def begin(self) -> None:
        """From now on the rank waits."""
        self._begun = self._device.event()

    def end(self) -> None:
        """The rank continues."""
        if self._begun is not None:
            self._pending.append((self._begun, self._device.event()))
            self._begun = None
        while self._pending and self._pending[0][1].ready():
            self._add()

    def _add(self) -> None:
        begin, end = self._pending.popleft()
        self._seconds += max(0.0, end.seconds_since(begin))

    def seconds(self) -> float:
        """The sum of all waits that have ended. To be called when the device has done all its work."""
        while self._pending:
            self._add()
        return self._seconds


def waits_of(device: Device) -> Waits | None:
    """A new sum of waits; None for a device whose events make the host wait."""
    return None if getattr(type(device.event()), "blocks", False) else Waits(device)


@contextmanager
def waits_of_calls(device: Device) -> Iterator[Waits]:
    """The sum of the times in which this process waits for a collective, or for a message of another rank, on the host.

    For backends whose `Work.wait` blocks the host, such as gloo: every call of `torch.distributed` from Python ends in
    it, whether it was made to be waited for or not.
    """
    waits, wait = Waits(device), torch.distributed.Work.wait
    waiting = False

    def measured(work: torch.distributed.Work, *arguments: Any, **named: Any) -> bool:
        nonlocal waiting
        if waiting:
            return wait(work, *arguments, **named)
        waiting = True
        waits.begin()
        try:
            return wait(work, *arguments, **named)
        finally:
            waits.end()
            waiting = False

    torch.distributed.Work.wait = measured
    try:
        yield waits
    finally:
        torch.distributed.Work.wait = wait
