"""The host CPU as a rank's device. Work is done when a call returns, so events are readings of a clock."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType, TracebackType

STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")
RESET_PEAK = "5"
"""The value by which `clear_refs` resets `VmHWM` (proc(5))."""


class HostEvent:
    """A reading of the host's monotonic clock."""

    __slots__ = ("_at",)

    def __init__(self) -> None:
        self._at = time.perf_counter()

    def ready(self) -> bool:
        """Always true: nothing is queued on a CPU."""
        return True

    def seconds_since(self, earlier: HostEvent) -> float:
        """Seconds between two events."""
        return self._at - earlier._at


class CpuDevice:
    """A rank's device on the host CPU."""

    places: Mapping[str, str] = MappingProxyType({"torch": "cpu", "paddle": "cpu"})
    collective_backend = "gloo"

    def event(self) -> HostEvent:
        """The present time."""
        return HostEvent()

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def peak_memory_bytes(self) -> int | None:
        """Most resident bytes of this process since the last reset, or its start if the kernel allows no reset."""
        with suppress(OSError):
            for line in STATUS.read_text(encoding="utf-8").splitlines():
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
        try:
            import resource
            import sys
        except ImportError:  # Windows
            return None
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return (peak if sys.platform == "darwin" else peak * 1024) or None

    def reset_peak_memory(self) -> None:
        """Reset the peak, if the kernel allows it."""
        try:
            CLEAR_REFS.write_text(RESET_PEAK)
        except OSError:
            return

    def close(self) -> None:
        """Nothing to release."""

    def __enter__(self) -> CpuDevice:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
