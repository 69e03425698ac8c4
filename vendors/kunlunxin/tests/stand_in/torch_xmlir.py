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


def plays(answer: Any) -> Any:
    """A function of its own for each name, as torch's compiler expects of torch's."""

    def answers(device: Any = None) -> Any:
        return answer()

    return answers


def resident() -> int:
    """Most this process has held since its start."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


torch.cuda.Event = Event  # type: ignore[assignment,misc]
for name in ("set_device", "synchronize", "empty_cache", "reset_peak_memory_stats"):
    setattr(torch.cuda, name, plays(lambda: None))
for name in ("max_memory_allocated", "max_memory_reserved"):
    setattr(torch.cuda, name, plays(resident))
