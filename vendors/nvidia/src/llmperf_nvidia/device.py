"""One rank's GPU through torch.cuda; imported in workers only."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import torch


class CudaEvent:
    """A point in the GPU's current stream."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        self._event.record()

    def ready(self) -> bool:
        """Whether the stream has reached it."""
        return bool(self._event.query())

    def seconds_since(self, earlier: CudaEvent) -> float:
        """GPU time between two reached events, in seconds."""
        return float(earlier._event.elapsed_time(self._event)) / 1000


class CudaDevice:
    """The GPU of a local rank, made the current one."""

    collective_backend = "nccl"

    def __init__(self, local_rank: int) -> None:
        torch.cuda.set_device(local_rank)
        self._index = local_rank
        self.torch_device: str | None = f"cuda:{local_rank}"
        self.paddle_place: str | None = f"gpu:{local_rank}"

    def event(self) -> CudaEvent:
        """Mark the present end of the current stream."""
        return CudaEvent()

    def synchronize(self) -> None:
        """Block until the GPU has done all it was given, on every stream."""
        torch.cuda.synchronize(self._index)

    def peak_memory_bytes(self) -> int | None:
        """Most that torch's allocator has held in tensors since the last reset."""
        return int(torch.cuda.max_memory_allocated(self._index))

    def peak_reserved_bytes(self) -> int | None:
        """Most that torch's allocator has taken from the GPU since the last reset, cached blocks included."""
        return int(torch.cuda.max_memory_reserved(self._index))

    def reset_peak_memory(self) -> None:
        """Begin the peak anew from what is held now."""
        torch.cuda.reset_peak_memory_stats(self._index)

    def close(self) -> None:
        """Give cached blocks back."""
        torch.cuda.empty_cache()

    def __enter__(self) -> CudaDevice:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
