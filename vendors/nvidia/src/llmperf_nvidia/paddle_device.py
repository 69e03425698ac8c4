"""One rank's GPU through Paddle; imported in workers of a Paddle framework only, where torch may not be installed."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import paddle


class PaddleEvent:
    """A point in the GPU's current stream."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event: Any = paddle.device.Event(enable_timing=True)
        self._event.record()

    def ready(self) -> bool:
        """Whether the stream has reached it."""
        return bool(self._event.query())

    def seconds_since(self, earlier: PaddleEvent) -> float:
        """GPU time between two reached events, in seconds."""
        return float(earlier._event.elapsed_time(self._event)) / 1000


class PaddleCudaDevice:
    """The GPU of a local rank, made Paddle's current one."""

    collective_backend = "nccl"
    torch_device: str | None = None

    def __init__(self, local_rank: int) -> None:
        self._index = local_rank
        self.paddle_place: str | None = f"gpu:{local_rank}"
        paddle.set_device(self.paddle_place)

    def event(self) -> PaddleEvent:
        """Mark the present end of the current stream."""
        return PaddleEvent()

    def synchronize(self) -> None:
        """Block until the GPU has done all it was given, on every stream."""
        paddle.device.cuda.synchronize(self._index)

    def peak_memory_bytes(self) -> int | None:
        """Most that Paddle's allocator has held in tensors since the last reset."""
        return int(paddle.device.cuda.max_memory_allocated(self._index))

    def peak_reserved_bytes(self) -> int | None:
        """Most that Paddle's allocator has taken from the GPU since the last reset, cached blocks included."""
        return int(paddle.device.cuda.max_memory_reserved(self._index))

    def reset_peak_memory(self) -> None:
        """Begin both peaks anew from what is held now."""
        paddle.device.cuda.reset_max_memory_allocated(self._index)
        paddle.device.cuda.reset_max_memory_reserved(self._index)

    def close(self) -> None:
        """Give cached blocks back."""
        paddle.device.cuda.empty_cache()

    def __enter__(self) -> PaddleCudaDevice:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
