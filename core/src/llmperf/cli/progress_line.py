"""The progress line of a run, the core's own observer: rewritten in place on a terminal, rarely printed elsewhere."""

from __future__ import annotations

import io
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from llmperf.hookspecs import hookimpl

if TYPE_CHECKING:
    from llmperf.types import Observer, Plan, Progress, Result, StepProgress

SECONDS_BETWEEN_LINES = 10.0
"""Where standard error is not a terminal."""


@hookimpl
def llmperf_observers() -> Iterable[Observer]:
    """The progress line on standard error."""
    return [ProgressLine()]


class ProgressLine:
    """Writes to standard error, and leaves a terminal clean at the end of the run."""

    name = "progress line"

    def __init__(self) -> None:
        self._stream = sys.stderr or io.StringIO()  # None where it is closed
        self._live = self._stream.isatty()
        self._last_text = ""
        self._last_time = 0.0

    def started(self, plan: Plan, folder: Path) -> None:
        """Shows nothing before the first progress."""

    def progress(self, progress: Progress) -> None:
        """Show the present state."""
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

    def steps(self, steps: Sequence[StepProgress]) -> None:
        """Shows no single steps."""

    def ended(self, result: Result | None, folder: Path) -> None:
        """Clear the line on a terminal."""
        if self._live and self._last_text:
            self._stream.write("\r" + " " * len(self._last_text) + "\r")
            self._stream.flush()
        self._last_text = ""


def progress_text(progress: Progress, width: int | None = None) -> str:
    """Such as `measuring  step 12/30  loss 8.101  1,432 token/p/s  MFU 17.9 %  mem 0.71 GiB  12 s left`.

    If this is wider than `width`, spaces and the word `step` are dropped (`measuring 12/30 loss 8.101`); if it is still
    too wide, memory, MFU, pace and loss are left out, in this order, until it fits.
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
    shown = [(name, part) for name, part in parts.items() if part is not None]
    text = "  ".join(part for _, part in shown)
    for left_out in (None, "memory", "mfu", "pace", "loss"):
        if width is None or len(text) <= width:
            break
        shown = [(name, part) for name, part in shown if name != left_out]
        text = " ".join(part.removeprefix("step ") for _, part in shown)
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
