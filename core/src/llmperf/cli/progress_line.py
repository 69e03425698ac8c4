"""The progress line of a run, the core's own observer: rewritten in place on a terminal, rarely printed elsewhere."""

from __future__ import annotations

import io
import shutil
import sys
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from llmperf.hookspecs import hookimpl
from llmperf.reporting.cells import duration
from llmperf.reporting.text_table import sparkline

if TYPE_CHECKING:
    from llmperf.types import Observer, Plan, Progress, Result, StepProgress

SECONDS_BETWEEN_LINES = 300.0
"""Interval of lines where standard error is not a terminal; the first comes after so long."""
BUILDING = "building the model, its optimiser and its data"
CHARTED_STEPS = 12
"""The last steps, whose time is drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Position of the current run among several."""

    number: int
    """Number of the run, from 1."""
    runs: int
    """Number of all runs."""
    ends_at: float | None = None
    """Expected end of all, on the monotonic clock; None before a run has ended."""

    @property
    def seconds_left(self) -> float | None:
        """Until all runs have ended; None also if they take longer than expected."""
        left = 0.0 if self.ends_at is None else self.ends_at - time.monotonic()
        return left if left > 0 else None


_place: Place | None = None
_quiet = False


def no_progress() -> None:
    """Show no progress of the runs of this process."""
    global _quiet
    _quiet = True


def begin_run(number: int, runs: int, seconds_left: float | None) -> None:
    """Say which of several runs begins, so that its line shows the whole too; `seconds_left` is that of all."""
    global _place
    ends_at = None if seconds_left is None else time.monotonic() + seconds_left
    _place = Place(number=number, runs=runs, ends_at=ends_at) if runs > 1 else None


@hookimpl
def llmperf_observers() -> Iterable[Observer]:
    """The progress line on standard error."""
    return [] if _quiet else [ProgressLine()]


class ProgressLine:
    """Writes to standard error, and leaves a terminal clean at the end of the run."""

    name = "progress line"

    def __init__(self) -> None:
        self._stream = sys.stderr or io.StringIO()  # None where it is closed
        self._live = self._stream.isatty()
        self._last_text = ""
        self._last_time = time.monotonic()
        self._step_seconds: deque[float] = deque(maxlen=CHARTED_STEPS)

    def started(self, plan: Plan, folder: Path) -> None:
        """Shows nothing before the first progress."""

    def progress(self, progress: Progress) -> None:
        """Show the present state."""
        width = shutil.get_terminal_size().columns - 1 if self._live else None
        chart = sparkline(list(self._step_seconds), CHARTED_STEPS, self._stream.encoding) if self._live else ""
        text = progress_text(progress, width, _place, chart)
        if width is not None:
            self._stream.write("\r" + text[:width].ljust(min(len(self._last_text), width)))
            self._stream.flush()
            self._last_text = text[:width]
        elif text != self._last_text and time.monotonic() - self._last_time >= SECONDS_BETWEEN_LINES:
            self._stream.write(text + "\n")
            self._stream.flush()
            self._last_text, self._last_time = text, time.monotonic()

    def steps(self, steps: Sequence[StepProgress]) -> None:
        """Keep the time of the last steps."""
        self._step_seconds.extend(step.step_seconds for step in steps)

    def ended(self, result: Result | None, folder: Path) -> None:
        """Clear the line on a terminal."""
        self._step_seconds.clear()
        if self._live and self._last_text:
            self._stream.write("\r" + " " * len(self._last_text) + "\r")
            self._stream.flush()
        self._last_text = ""


def progress_text(progress: Progress, width: int | None = None, place: Place | None = None, chart: str = "") -> str:
    """The line within `width`, such as `measuring  step 12/30  loss 8.101  1,432 token/p/s  MFU 17.9 %  12 s left`."""
    parts = {
        "place": None if place is None else f"run {place.number} of {place.runs}",
        "phase": BUILDING if progress.phase == "building" else progress.phase,
        "step": None if progress.phase == "building" else f"step {progress.step}/{progress.steps}",
        "loss": _known("loss {:.4f}", progress.loss),
        "pace": _known("{:,.0f} token/p/s", progress.tokens_per_second_per_device),
        "chart": f"step time {chart}" if chart else None,
        "mfu": _known("MFU {:.1f} %", progress.mfu, 100),
        "memory": _known("mem {:.2f} GiB", progress.memory_used_bytes, 2**-30),
        "left": None if progress.seconds_left is None else f"{duration(progress.seconds_left)} left",
        "all": None if place is None or place.seconds_left is None else f"{duration(place.seconds_left)} for all",
    }
    shown = [(name, part) for name, part in parts.items() if part is not None]
    text = "  ".join(part for _, part in shown)
    for left_out in (None, "memory", "mfu", "chart", "pace", "loss"):
        if width is None or len(text) <= width:
            break
        shown = [(name, part) for name, part in shown if name != left_out]
        text = " ".join(part.removeprefix("step time ").removeprefix("step ") for _, part in shown)
    return text


def _known(form: str, value: float | None, factor: float = 1) -> str | None:
    return None if value is None else form.format(factor * value)
