"""The line that `--wait-until-idle` shows: rewritten in place on a terminal, rarely printed elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from llmperf.reporting.cells import duration

if TYPE_CHECKING:
    from llmperf.planning.states import Planned

SECONDS_BETWEEN_LINES = 60.0
"""Where standard error is not a terminal."""


def ready_by(minutes: float | None) -> Callable[[Planned], None] | None:
    """What waits for so many minutes until the machine of a run is idle; None without minutes."""
    if minutes is None:
        return None

    def ready(planned: Planned) -> None:
        from llmperf.running.idle import wait_until_idle

        line = IdleLine(minutes)
        try:
            wait_until_idle(planned, minutes, line.show)
        finally:
            line.clear()

    return ready


def short(busy: str) -> str:
    """Why a machine is not idle, for one line of 80 columns: `others use 45 % of the cores (cc1plus 30 %)`."""
    return busy.replace("the machine is busy: ", "").replace("other processes use", "others use")


class IdleLine:
    """Writes to standard error, and leaves a terminal clean."""

    def __init__(self, minutes: float) -> None:
        self._limit = f"{minutes:g} min"
        self._live = sys.stderr.isatty()
        self._last_time: float | None = None
        self._last_text = ""

    def show(self, busy: str, seconds: float) -> None:
        """Show why the machine is not idle yet, and for how long that has been so."""
        text = f"waiting until idle, {duration(seconds)} of {self._limit}: {busy}"
        if self._live:
            text = f"waiting {duration(seconds)} of {self._limit}: {short(busy)}"
            width = shutil.get_terminal_size().columns - 1
            click.echo("\r" + text[:width].ljust(min(len(self._last_text), width)), nl=False, err=True)
            self._last_text = text[:width]
        elif self._last_time is None or time.monotonic() - self._last_time >= SECONDS_BETWEEN_LINES:
            click.echo(text, err=True)
            self._last_time = time.monotonic()

    def clear(self) -> None:
        """Clear the line on a terminal."""
        if self._last_text:
            click.echo("\r" + " " * len(self._last_text) + "\r", nl=False, err=True)
            self._last_text = ""
