"""The live line of a run: rewritten in place on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llmperf.launching.progress import Progress

SECONDS_BETWEEN_LINES = 10.0
"""Where standard error is no terminal."""


class ProgressLine:
    """Writes to standard error; a context manager that leaves the terminal clean."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._last_text = ""
        self._last_time = 0.0

    def show(self, progress: Progress) -> None:
        """Show where the run is."""
        text = progress_text(progress)
        if self._live:
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write("\r" + text[:width].ljust(min(len(self._last_text), width)))
            sys.stderr.flush()
            self._last_text = text[:width]
        elif text != self._last_text and time.monotonic() - self._last_time >= SECONDS_BETWEEN_LINES:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()
            self._last_text, self._last_time = text, time.monotonic()

    def clear(self) -> None:
        """Take the live line away."""
        if self._live and self._last_text:
            sys.stderr.write("\r" + " " * len(self._last_text) + "\r")
            sys.stderr.flush()
        self._last_text = ""

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()


def progress_text(progress: Progress) -> str:
    """Such as `measuring  step 12/30  loss 8.101  1,432 token/p/s  MFU 17.9 %  mem 0.71 GiB  12 s left`."""
    parts = [progress.phase, f"step {progress.step}/{progress.steps}"]
    if progress.loss is not None:
        parts.append(f"loss {progress.loss:.4f}")
    if progress.tokens_per_second_per_device is not None:
        parts.append(f"{progress.tokens_per_second_per_device:,.0f} token/p/s")
    if progress.mfu is not None:
        parts.append(f"MFU {100 * progress.mfu:.1f} %")
    if progress.memory_used_bytes is not None:
        parts.append(f"mem {progress.memory_used_bytes / 2**30:.2f} GiB")
    if progress.seconds_left is not None:
        parts.append(f"{duration(progress.seconds_left)} left")
    return "  ".join(parts)


def duration(seconds: float) -> str:
    """Such as `42 s`, `3 min 10 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
