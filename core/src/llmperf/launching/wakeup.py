"""A wait that ends early when a signal comes or a child process ends."""

from __future__ import annotations

import os
import select
import signal
import threading
from types import FrameType
from typing import Any


class Wakeup:
    """While entered, the given signals, and the end of a child process, end `wait` early."""

    def __init__(self, *signals: signal.Signals) -> None:
        self._signals = signals
        self._previous: dict[signal.Signals, Any] = {}
        self._previous_descriptor = -1
        self._read, self._write = os.pipe()
        self.signal: int | None = None
        """The first signal that came."""
        self.count = 0
        """How many signals came."""

    def wait(self, seconds: float) -> None:
        """Return after `seconds`, or earlier after a signal or the end of a child."""
        if select.select([self._read], [], [], seconds)[0]:
            os.read(self._read, 4096)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = number if self.signal is None else self.signal
        self.count += 1

    def __enter__(self) -> Wakeup:
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        if threading.current_thread() is threading.main_thread():
            for number in self._signals:
                if signal.getsignal(number) is not signal.SIG_IGN:  # nohup is respected
                    self._previous[number] = signal.signal(number, self._note)
            self._previous[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda number, frame: None)
            self._previous_descriptor = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        return self

    def __exit__(self, *error: object) -> None:
        if self._previous:
            signal.set_wakeup_fd(self._previous_descriptor)
        for number, handler in self._previous.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        os.close(self._read)
        os.close(self._write)
