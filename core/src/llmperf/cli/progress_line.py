"""The live line of a run: rewritten in place on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import io
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
        self._stream = sys.stderr or io.StringIO()  # None where it is closed
        self._live = self._stream.isatty()
        self._last_text = ""
        self._last_time = 0.0

    def show(self, progress: Progress) -> None:
        """Show where the run is."""
        width = shutil.get_terminal_size().columns - 1 if self._live else None
        text = progress_text(progress, width)
        if width is not None:
            self._stream.write("\r" + text[:width].ljust(min(len(self._last_text), width)))
            self._stream.flush()
            self._last_text = text[:width]
        elif text != self._last_text and time.monotonic() - self._last_time >= SECONDS_BETWEEN_LINES:
            self._stream.write(text + "\n")
            self._stream.flush()
            self._last_text, self._last_time = text, time.monotonic()

    def clear(self) -> None:
        """Take the live line away."""
        if self._live and self._last_text:
            self._stream.write("\r" + " " * len(self._last_text) + "\r")
            self._stream.flush()
        self._last_text = ""

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()


def progress_text(progress: Progress, width: int | None = None) -> str:
    """Such as `measuring  step 12/30  loss 8.101  1,432 token/p/s  MFU 17.9 %  mem 0.71 GiB  12 s left`.

    Where that is wider than `width`, it is set closer (`measuring 12/30 loss 8.101`); if it still is, memory, MFU, pace
    and loss are left out, in this order, until it fits.
    """
    parts = {
        "phase": progress.phase,
        "step": f"step {progress.step}/{progress.steps}",
        "loss": _known("loss {:.4f}", progress.loss),
        "pace": _known("{:,.0f} token/p/s", progress.tokens_per_second_per_device),
        "mfu": _known("MFU {:.1f} %", progress.mfu, 100),
        "memory": _known("mem {:.2f} GiB", progress.memory_used_bytes, 2**-30),
        "left": None if progress.seconds_left is None else f"{duration(progress.seconds_left)} left",
    }
    told = [(name, part) for name, part in parts.items() if part is not None]
    text = "  ".join(part for _, part in told)
    for left_out in (None, "memory", "mfu", "pace", "loss"):
        if width is None or len(text) <= width:
            break
        told = [(name, part) for name, part in told if name != left_out]
        text = " ".join(part.removeprefix("step ") for _, part in told)
    return text


def _known(form: str, value: float | None, factor: float = 1) -> str | None:
    return None if value is None else form.format(factor * value)


def duration(seconds: float) -> str:
    """Such as `42 s`, `3 min 10 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
