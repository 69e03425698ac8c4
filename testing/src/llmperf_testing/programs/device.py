"""A process that binds a device as a rank does, gives it work and memory, and leaves it."""

from __future__ import annotations

import gc
import mmap
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from llmperf.files import json_files
from llmperf.plugins.discovery import find
from llmperf.plugins.loading import Plugins
from llmperf.types import Device, Plan

from llmperf_testing.check import Skip
from llmperf_testing.observations import Bound, Stretch
from llmperf_testing.programs.fresh import error_line

TRIES = 3
BLOCK_BYTES = 96 * 2**20
HOST_SECONDS = 0.25
QUEUED_SECONDS = 0.4
SIZE = 2048
"""Rows of the matrices that an accelerator multiplies."""
CHUNK_BYTES = 2**20
HOST_SIZE = 1024
"""Rows of those that a host multiplies."""
PRODUCTS = 5
"""Products that are timed."""


def seen(plan: str, vendor: str) -> Bound:
    """From binding to closing, as far as it goes."""
    whole, plugins = json_files.load(Path(plan), Plan), Plugins([find("vendor", vendor)])
    try:
        device: Device = plugins.ask("llmperf_setup_device", plan=whole, local_rank=0)
        if not hasattr(device, "places"):
            return Bound(error=f"nothing, and gave {device!r}; expected a Device"[:300])
        known = Bound(places=dict(device.places), collective_backend=device.collective_backend)
    except Exception as error:
        return Bound(error=error_line(error))
    try:
        work = work_for(device, whole.probe.devices[0].kind)
    except Skip as reason:
        known = replace(known, work=str(reason))
    except Exception as error:
        known = replace(known, event_error=error_line(error), memory_error=error_line(error))
    else:
        known = worked(known, device, work)
    return left(replace(known, backends=backends()), device)


def backends() -> tuple[str, ...]:
    """The collectives that torch knows once the device is bound; none where torch is not loaded."""
    torch = sys.modules.get("torch")
    return tuple(torch.distributed.Backend.backend_list) if torch and torch.distributed.is_available() else ()


def worked(known: Bound, device: Device, work: HostWork | TorchWork) -> Bound:
    """The same with what events tell of work, the peaks around a block of memory, and how fast it multiplies."""
    try:
        known = replace(known, stretches=tuple(stretch(device, work) for _ in range(TRIES)))
    except Exception as error:
        known = replace(known, event_error=error_line(error))
    try:
        known = replace(known, taken_bytes=BLOCK_BYTES, peaks=peaks(device, work))
    except Exception as error:
        known = replace(known, memory_error=error_line(error))
    try:
        known = replace(known, products=dict(work.products()))
    except Exception as error:
        return replace(known, product_error=error_line(error))
    return replace(known, runtime_name=work.device_name(), runtime_memory_bytes=work.memory_bytes())


def stretch(device: Device, work: HostWork | TorchWork) -> Stretch:
    """Some work between two events, timed by the host too."""
    device.synchronize()
    began = time.perf_counter()
    first = device.event()
    set_at = time.perf_counter()
    work.hand_over()
    handed_over = time.perf_counter()
    last = device.event()
    asked = time.perf_counter()
    last.ready()
    answered = time.perf_counter()
    device.synchronize()
    ended = time.perf_counter()
    reached = bool(last.ready())
    for _ in range(100):  # so that a wrong `synchronize()` does not make the events look wrong
        if last.ready():
            break
        time.sleep(0.05)
    return Stretch(
        wall_seconds=ended - began,
        least_seconds=handed_over - set_at,
        event_seconds=last.seconds_since(first),
        first_ready_seconds=answered - asked,
        reached=reached,
    )


def peaks(device: Device, work: HostWork | TorchWork) -> tuple[int | None, ...]:
    """Peaks of memory before a block is taken, with it, after it was given back, and after a reset."""
    gc.collect()
    device.reset_peak_memory()
    before = device.peak_memory_bytes()
    block = work.take(BLOCK_BYTES)
    device.synchronize()
    with_block = device.peak_memory_bytes()
    del block
    gc.collect()
    after = device.peak_memory_bytes()
    device.reset_peak_memory()
    return before, with_block, after, device.peak_memory_bytes()


def left(known: Bound, device: Device) -> Bound:
    """The same with how it is left: as a context manager with an error, closed, and closed again."""
    error = RuntimeError("an error of the kit's own")
    try:
        hides = bool(device.__exit__(RuntimeError, error, None))  # type: ignore[func-returns-value]
        device.close()
        device.close()
    except Exception as raised:
        return replace(known, close_error=error_line(raised))
    return replace(known, hides_errors=hides)


class HostWork:
    """Work for a host, which is done when the call returns."""

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
        path = Path("/proc/cpuinfo")
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return None
        values = (value for name, _, value in (line.partition(":") for line in lines) if name.strip() == "model name")
        return next((" ".join(value.split()) for value in values), None)

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


class TorchWork:
    """Work for an accelerator: matrix products, as many as fill the time."""

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


def work_for(device: Device, kind: str) -> HostWork | TorchWork:
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
