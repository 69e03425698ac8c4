"""Why a GPU's clocks are held down: NVML's bits in the words that llmperf has for all vendors."""

from __future__ import annotations

from typing import Any

from llmperf.types import ThrottleReason

from llmperf_nvidia.nvml import ask

IDLE = 0x1
"""Nothing to do is no reason to be slow."""
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
"""`nvmlClocksEventReason*` of nvml.h, and one that only its older name has; any other bit is `other`."""


def in_words(mask: int) -> tuple[ThrottleReason, ...]:
    """The reasons of a mask, each once; empty when the GPU runs free or idles."""
    found: list[ThrottleReason] = [reason for bit, reason in REASONS if mask & bit]
    known = IDLE | sum(bit for bit, _ in REASONS)
    return tuple(dict.fromkeys([*found, "other"] if mask & ~known else found))


def throttle_reasons(library: Any, handle: Any) -> tuple[ThrottleReason, ...] | None:
    """Through NVML, which called them throttle reasons before driver 535; None where it does not tell."""
    mask = ask(library, lambda: library.nvmlDeviceGetCurrentClocksEventReasons(handle))
    if mask is None:
        mask = ask(library, lambda: library.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
    return None if mask is None else in_words(mask)
