"""Numbers that are still on their way from the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import paddle

if TYPE_CHECKING:
    from llmperf.types.records import DeferredScalar


class DeviceScalar:
    """A number being copied to the host without anyone waiting for it."""

    __slots__ = ("_copied", "_event")

    def __init__(self, value: paddle.Tensor) -> None:
        number = value.detach().astype("float32").reshape([])
        pinned = value.place.is_gpu_place()
        self._copied = number._copy_to(paddle.CUDAPinnedPlace(), False) if pinned else number
        self._event = paddle.device.Event()
        self._event.record()

    def ready(self) -> bool:
        """Check whether the device has reached it."""
        return bool(self._event.query())

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
    return bool(found.item()) if found.place.is_cpu_place() else DeviceScalar(found)


def deferred(value: paddle.Tensor) -> float | DeferredScalar:
    """A number for `StepOutput`: at once where it is on the host, else as it comes."""
    return float(value.item()) if value.place.is_cpu_place() else DeviceScalar(value)
