"""Work for a device that is checked: on a host by itself, on an accelerator through torch."""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from llmperf.types import Device

from llmperf_testing.check import Skip

HOST_SECONDS = 0.25
QUEUED_SECONDS = 0.4
SIZE = 2048
"""Rows of the matrices that an accelerator multiplies."""
CHUNK_BYTES = 2**20
HOST_SIZE = 1024
"""Rows of those that a host multiplies."""
PRODUCTS = 5
"""Products that are timed."""


class Work(Protocol):
    """Something for a device to do, and memory for it to hold."""

    def hand_over(self) -> None:
        """Give the device some tenths of a second of work, without waiting for it where it has a queue."""

    def take(self, size: int) -> Any:
        """Memory of so many bytes, written to; given back when the object goes."""

    def products(self) -> Mapping[str, float]:
        """FLOP/s of the fastest of some matrix products, by dtype; empty where none can be computed."""

    def device_name(self) -> str | None:
        """The device's name by another source than the plugin; None if there is none."""

    def memory_bytes(self) -> int | None:
        """The device's memory by another source than the plugin; None if there is none."""


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
        for _ in range(0, size, CHUNK_BYTES):
            block.write(b"\1" * CHUNK_BYTES)
        return block

    def products(self) -> Mapping[str, float]:
        """In fp32, by NumPy: at most what the host can do."""
        left = np.ones((HOST_SIZE, HOST_SIZE), dtype=np.float32)
        out = np.empty_like(left)
        return {"fp32": fastest(lambda: np.matmul(left, left, out=out), 2.0 * HOST_SIZE**3)}

    def device_name(self) -> str | None:
        """As `/proc/cpuinfo` has it."""
        return _first_value(Path("/proc/cpuinfo"), "model name")

    def memory_bytes(self) -> int | None:
        """None: a control group may allow any part of the host's memory."""
        return None


def fastest(product: Callable[[], Any], flops: float) -> float:
    """FLOP/s of the fastest of some calls, each of which ends when its product is there."""
    seconds = []
    for _ in range(PRODUCTS):
        began = time.perf_counter()
        product()
        seconds.append(time.perf_counter() - began)
    return flops / min(seconds)


def _first_value(path: Path, key: str) -> str | None:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    values = (value for name, _, value in (line.partition(":") for line in lines) if name.strip() == key)
    return next((" ".join(value.split()) for value in values), None)


class TorchWork:
    """Matrix products, as many as fill the time."""

    def __init__(self, place: str, device: Device) -> None:
        import torch

        self._device = device
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

    def products(self) -> Mapping[str, float]:
        """In fp32, and in 16 bits where it has them."""
        torch, found = self._torch, {}
        for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)):
            size = SIZE if name == "fp32" else 2 * SIZE
            if self._place.type == "cpu":
                size = HOST_SIZE
            try:
                left = torch.ones(size, size, dtype=dtype, device=self._place)
                out = torch.empty_like(left)
            except (RuntimeError, TypeError):  # not a dtype of this device
                continue

            def product(left: Any = left, out: Any = out) -> None:
                torch.mm(left, left, out=out)
                self._device.synchronize()

            found[name] = fastest(product, 2.0 * size**3)
        return found

    def device_name(self) -> str | None:
        """As the runtime of the device's kind has it."""
        name = self._asked("get_device_name")
        return name if isinstance(name, str) else None

    def memory_bytes(self) -> int | None:
        """As the runtime of the device's kind has it."""
        memory = self._asked("mem_get_info")
        return int(memory[1]) if memory else None

    def _asked(self, function: str) -> Any:
        runtime = getattr(self._torch, self._place.type, None)
        query = getattr(runtime, function, None)
        try:
            return query(self._place) if query is not None else None
        except (RuntimeError, AssertionError, TypeError, ValueError):
            return None


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
