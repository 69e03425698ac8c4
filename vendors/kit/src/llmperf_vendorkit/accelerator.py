"""A rank's accelerator over a runtime's namespace, such as `torch.cuda`, which the caller imports."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any


class RuntimeEvent:
    """A point in the device's current stream; `event` is the runtime's own event, with timing."""

    __slots__ = ("_event",)

    def __init__(self, event: Any) -> None:
        self._event = event
        self._event.record()

    def ready(self) -> bool:
        """Check whether the stream has reached the event."""
        return bool(self._event.query())

    def seconds_since(self, earlier: RuntimeEvent) -> float:
        """Device time between two reached events, in seconds; runtimes measure milliseconds."""
        return float(earlier._event.elapsed_time(self._event)) / 1000


class BlockingEvent:
    """The host's time when the device has done all its work, for runtimes whose events measure no time.

    Each event waits for the device.
    """

    __slots__ = ("_at",)
    blocks = True
    """Trainers do not set events of their own where each of them waits."""

    def __init__(self, synchronize: Callable[[], None]) -> None:
        synchronize()
        self._at = time.perf_counter()

    def ready(self) -> bool:
        """Always true, since the event waited for the device."""
        return True

    def seconds_since(self, earlier: BlockingEvent) -> float:
        """Seconds between two events."""
        return self._at - earlier._at


class AcceleratorDevice:
    """A `Device` whose streams, memory and events are those of a runtime's namespace."""

    def __init__(
        self,
        runtime: Any,
        index: int,
        *,
        collective_backend: str,
        places: Mapping[str, str],
        make_event: Callable[..., Any],
    ) -> None:
        """`runtime` is a namespace such as `torch.cuda`, `torch.npu` or `paddle.device.xpu`, `index` as it counts.

        `places` as in `Device.places`; `make_event` is the runtime's event class, and takes `enable_timing`.
        """
        self._runtime = runtime
        self._index = index
        self._make_event = make_event
        self._events_measure_time = True
        self.collective_backend = collective_backend
        self.places = places

    def event(self) -> RuntimeEvent | BlockingEvent:
        """Mark the present end of the current stream."""
        if self._events_measure_time:
            return RuntimeEvent(self._make_event(enable_timing=True))
        return BlockingEvent(self.synchronize)

    def check_events(self, work: Callable[[], object]) -> bool:
        """Check whether the runtime's events measure the time of `work`; if not, events wait for the device."""
        work()
        self.synchronize()
        try:
            first = RuntimeEvent(self._make_event(enable_timing=True))
            work()
            second = RuntimeEvent(self._make_event(enable_timing=True))
            self.synchronize()
            self._events_measure_time = second.seconds_since(first) > 0
        except Exception:  # a runtime without events may raise anything
            self._events_measure_time = False
        return self._events_measure_time

    def synchronize(self) -> None:
        """Block until the device has done all its work, on every stream."""
        self._runtime.synchronize(self._index)

    def peak_memory_bytes(self) -> int | None:
        """The most bytes that the runtime's allocator has held in tensors since the last reset."""
        return int(self._runtime.max_memory_allocated(self._index))

    def peak_reserved_bytes(self) -> int | None:
        """The most bytes that the allocator has taken from the device since the last reset, with cached blocks."""
        return int(self._runtime.max_memory_reserved(self._index))

    def reset_peak_memory(self) -> None:
        """Reset both peaks to what is held now."""
        if hasattr(self._runtime, "reset_peak_memory_stats"):
            self._runtime.reset_peak_memory_stats(self._index)
            return
        self._runtime.reset_max_memory_allocated(self._index)
        self._runtime.reset_max_memory_reserved(self._index)

    def close(self) -> None:
        """Return cached blocks to the device."""
        self._runtime.empty_cache()

    def __enter__(self) -> AcceleratorDevice:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
