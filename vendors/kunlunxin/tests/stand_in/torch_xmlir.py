"""Plays XPyTorch: what the plugin asks of `torch.cuda` is answered by the host CPU, and it says so by its mark."""

from __future__ import annotations

import resource
import time
from typing import Any

import torch

LLMPERF_STAND_IN = {"torch_device": "cpu", "collective_backend": "gloo"}


class Event:
    """On a CPU work is done when a call returns."""

    def __init__(self, enable_timing: bool = False) -> None:
        self.at = 0.0

    def record(self) -> None:
        self.at = time.perf_counter()

    def query(self) -> bool:
        return True

    def elapsed_time(self, later: Event) -> float:
        return (later.at - self.at) * 1000


def resident(device: Any = None) -> int:
    """Most this process has held since its start."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def nothing(device: Any = None) -> None:
    """What a CPU has no need of."""


torch.cuda.Event = Event  # type: ignore[assignment,misc]
torch.cuda.set_device = nothing
torch.cuda.synchronize = nothing
torch.cuda.empty_cache = nothing  # type: ignore[assignment]
torch.cuda.reset_peak_memory_stats = nothing
torch.cuda.max_memory_allocated = resident
torch.cuda.max_memory_reserved = resident
