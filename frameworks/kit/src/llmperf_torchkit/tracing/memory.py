"""Live memory of a device: every storage from its first tensor to its end, in the allocator's blocks."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from llmperf.types.tracing import MemoryKind, Phase, TracedMemory

BLOCK_BYTES = 512


@dataclass(slots=True)
class Allocation:
    """One storage."""

    bytes: int
    """In blocks."""
    phase: Phase
    """When it was made."""
    operation: str
    """Operation that allocated it."""
    shape: tuple[int, ...]
    """Shape of its first tensor."""
    made: int
    """Position in the sequence of allocations and releases."""
    freed: int | None = None
    """The same of its release."""
    freed_phase: Phase | None = None
    """When it was released; None while it lives."""
    kind: MemoryKind | None = None
    """Kind of its content, where that is certain."""
    recomputed: bool = False
    """A forward pass that is repeated in the backward pass made it."""


def blocks(size: int) -> int:
    """Bytes of the whole blocks that hold `size` bytes."""
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES


class LiveMemory:
    """All storages on one device type."""

    def __init__(self, device_type: str) -> None:
        self._device_type = device_type
        self._living: dict[int, tuple[Any, Allocation]] = {}
        self._time = 0
        self._log: list[tuple[int, Allocation]] = []
        self.phase: Phase = "forward"
        """Part of the step that runs."""
        self.recomputing = False
        """True if a forward pass is repeated in the backward pass."""

    def add(self, tensor: torch.Tensor, operation: str) -> None:
        """Count the tensor's storage, unless it is counted already."""
        if tensor.device.type != self._device_type:
            return
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._living:
            return
        self._time += 1
        allocation = Allocation(blocks(storage.nbytes()), self.phase, operation, tuple(tensor.shape), self._time)
        allocation.recomputed = self.recomputing
        self._log.append((self._time, allocation))
        self._living[key] = weakref.ref(storage, lambda _: self._release(key)), allocation

    def allocation_of(self, tensor: torch.Tensor) -> Allocation | None:
        """The allocation that holds a tensor of the device; None for others."""
        entry = self._living.get(tensor.untyped_storage()._cdata) if tensor.device.type == self._device_type else None
        return None if entry is None else entry[1]

    def _release(self, key: int) -> None:
        _, allocation = self._living.pop(key)
        self._time += 1
        allocation.freed, allocation.freed_phase = self._time, self.phase

    def resized(self, storage: torch.UntypedStorage, size: int, operation: str) -> None:
        """A storage keeps its identity and changes its size."""
        entry = self._living.get(storage._cdata)
        if entry is None:
            return
        reference, old = entry
        self._time += 1
        old.freed, old.freed_phase = self._time, self.phase
        new = Allocation(blocks(size), self.phase, operation, old.shape, self._time, kind=old.kind)
        self._log.append((self._time, new))
        self._living[storage._cdata] = reference, new

    def mark(self, tensor: torch.Tensor, kind: MemoryKind, *, firmly: bool = True) -> None:
        """Say what a tensor's storage holds; without `firmly`, only if nobody has said so before."""
        tensor = getattr(tensor, "_local_tensor", tensor)  # this rank's part of a distributed tensor
        if tensor.device.type != self._device_type:
            return
        entry = self._living.get(tensor.untyped_storage()._cdata)
        if entry is not None and (firmly or entry[1].kind is None):
            entry[1].kind = kind

    def forget_past(self) -> int:
        """Begin to look for a peak from now on; the position in time."""
        self._log = [(allocation.made, allocation) for _, allocation in self._living.values()]
        return self._time

    @property
    def live_bytes(self) -> int:
        """Bytes of all live storages."""
        return sum(allocation.bytes for _, allocation in self._living.values())

    def summary(self, start: int, logits_widths: Iterable[int]) -> TracedMemory:
        """The peak since `start`, and what was held then."""
        allocations = [allocation for _, allocation in self._log]
        changes = [(max(one.made, start), one.bytes, one) for one in allocations]
        changes += [(one.freed, -one.bytes, one) for one in allocations if one.freed is not None]
        live = peak = 0
        when, last = start, None
        for time, size, allocation in sorted(changes, key=lambda change: change[0]):
            live += size
            if live > peak:
                peak, when, last = live, time, allocation
        widths = set(logits_widths)
        held, before = Counter[MemoryKind](), Counter[MemoryKind]()
        for time, sums in ((when, held), (start, before)):
            for one in allocations:
                if one.bytes and one.made <= time and (one.freed is None or one.freed > time):
                    sums[kind_of(one, start, widths)] += one.bytes
        place = "" if last is None else f"{last.operation} {list(last.shape)}"
        phase: Phase = "forward" if last is None else last.phase
        return TracedMemory(peak_bytes=peak, at_peak=held, phase=phase, operation=place, between_steps=before)


def kind_of(allocation: Allocation, start: int, logits_widths: set[int]) -> MemoryKind:
    """Kind of an allocation: as marked, otherwise by its shape and lifetime.

    `start`: the beginning of the step; older allocations that nobody marked are `other`.
    """
    if allocation.kind is not None:
        return allocation.kind
    if allocation.made <= start:
        return "other"
    shape = allocation.shape
    if len(shape) >= 2 and (shape[-1] in logits_widths):
        return "logits"
    if allocation.recomputed or (allocation.phase == "forward" and allocation.freed_phase != "forward"):
        return "activations"
    return "temporaries"
