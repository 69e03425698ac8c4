"""Work for a device that is checked: on a host by itself, on an accelerator through torch."""

from __future__ import annotations

import mmap
import time
from typing import Any, Protocol

from llmperf.types import Device

from llmperf_testing.check import Skip

HOST_SECONDS = 0.1
QUEUED_SECONDS = 0.4
SIZE = 2048
"""Rows of the matrices that an accelerator multiplies."""


class Work(Protocol):
    """Something for a device to do, and memory for it to hold."""

    def hand_over(self) -> None:
        """Give the device some tenths of a second of work, without waiting for it where it has a queue."""
        ...

    def take(self, size: int) -> Any:
        """Memory of so many bytes, written to; given back when the object goes."""
        ...


class HostWork:
    """On a host work is done when the call returns."""

    def hand_over(self) -> None:
        """Count until the time is over."""
        end = time.perf_counter() + HOST_SECONDS
        while time.perf_counter() < end:
            pass

    def take(self, size: int) -> Any:
        """Pages of their own, which the allocator cannot keep."""
        block = mmap.mmap(-1, size)
        block.write(b"\1" * size)
        return block


class TorchWork:
    """Matrix products, as many as fill the time."""

    def __init__(self, place: str, device: Device) -> None:
        import torch

        self._torch, self._place = torch, torch.device(place)
        self._left, self._right = (torch.rand(SIZE, SIZE, device=self._place) for _ in range(2))
        self._out = torch.empty(SIZE, SIZE, device=self._place)
        self._products(2)
        device.synchronize()
        began = time.perf_counter()
        self._products(8)
        device.synchronize()
        each = max(1e-6, (time.perf_counter() - began) / 8)
        self._count = max(1, min(100_000, int(QUEUED_SECONDS / each)))

    def _products(self, count: int) -> None:
        for _ in range(count):
            self._torch.mm(self._left, self._right, out=self._out)

    def hand_over(self) -> None:
        """Queue products."""
        self._products(self._count)

    def take(self, size: int) -> Any:
        """A tensor."""
        return self._torch.ones(size // 4, dtype=self._torch.float32, device=self._place)


def work_for(device: Device, kind: str) -> Work:
    """Work for a device of a kind; Skip if there is no way to give it any."""
    if kind == "cpu":
        return HostWork()
    if "torch" not in device.places:
        raise Skip("the device has no place for torch, and the kit gives work through torch only")
    try:
        import torch  # noqa: F401
    except ImportError:
        raise Skip("torch is not installed, through which the kit gives work") from None
    return TorchWork(device.places["torch"], device)
