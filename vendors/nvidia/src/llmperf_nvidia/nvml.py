"""NVML through `nvidia-ml-py`: opening it, asking it, its errors and its throttle reasons in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from llmperf.types import ThrottleReason

T = TypeVar("T")

REMEDIES = {
    "LIBRARY_NOT_FOUND": "install the NVIDIA driver",
    "DRIVER_NOT_LOADED": "load its kernel module: modprobe nvidia",
    "NO_PERMISSION": "give this user access to /dev/nvidia*",
    "LIB_RM_VERSION_MISMATCH": "kernel module and library are of different versions: reload the module or reboot",
    "GPU_IS_LOST": "reset it or reboot",
    "RESET_REQUIRED": "reset it or reboot",
}
"""By the name of NVML's error, without `NVML_ERROR_`."""
MODES = {0: "off", 1: "on", "Disabled": "off", "Enabled": "on"}
"""States of ECC and MIG, as NVML and as the tool show them."""


def open_library() -> Any:
    """NVML, initialised; the caller ends it with `nvmlShutdown`. OSError, one line, where it cannot be used."""
    try:
        import pynvml  # type: ignore[import-untyped]
    except ImportError as error:
        raise OSError(f"nvidia-ml-py cannot be imported: {error}") from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise OSError(f"NVML: {in_words(pynvml, error)}") from None
    return pynvml


def in_words(library: Any, error: Any) -> str:
    """An NVML error and its remedy, on one line."""
    remedies = {getattr(library, f"NVML_ERROR_{name}"): remedy for name, remedy in REMEDIES.items()}
    message = " ".join(str(error).split()).removesuffix(".")
    remedy = remedies.get(error.value)
    return f"{message} ({remedy})" if remedy else message


def ask(library: Any, reading: Callable[[], T]) -> T | None:
    """A reading; None if this GPU or driver does not have it, or this user may not read it."""
    try:
        return reading()
    except library.NVMLError as error:
        if gone(library, error):
            raise
        return None
    except (AttributeError, UnicodeDecodeError):  # an older nvidia-ml-py, a name that is no UTF-8
        return None


def gone(library: Any, error: Any) -> bool:
    """Check whether an error means that a GPU no longer answers."""
    return error.value in (library.NVML_ERROR_GPU_IS_LOST, library.NVML_ERROR_RESET_REQUIRED)


IDLE = 0x1
"""Being idle is no throttling."""
REASONS: tuple[tuple[int, ThrottleReason], ...] = (
    (0x2, "clock setting"),  # application clocks
    (0x4, "power limit"),
    (0x8, "hardware slowdown"),
    (0x10, "clock setting"),  # in a group that clocks as one
    (0x20, "heat"),  # by software
    (0x40, "heat"),  # by hardware
    (0x80, "power brake"),
    (0x100, "clock setting"),  # for a display
    (0x200, "power limit"),  # of the board
)
"""`nvmlClocksEventReason*` of nvml.h, and one that only their older name has; any other bit is `other`."""


def reasons_of(mask: int) -> tuple[ThrottleReason, ...]:
    """The reasons in a mask, each once; empty when the GPU runs freely or idles."""
    reasons: list[ThrottleReason] = [reason for bit, reason in REASONS if mask & bit]
    known = IDLE | sum(bit for bit, _ in REASONS)
    return tuple(dict.fromkeys([*reasons, "other"] if mask & ~known else reasons))


def throttle_reasons(library: Any, handle: Any) -> tuple[ThrottleReason, ...] | None:
    """Reasons why a GPU's clocks are reduced now (NVML's throttle reasons before driver 535); None if not shown."""
    mask = ask(library, lambda: library.nvmlDeviceGetCurrentClocksEventReasons(handle))
    if mask is None:
        mask = ask(library, lambda: library.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
    return None if mask is None else reasons_of(mask)
