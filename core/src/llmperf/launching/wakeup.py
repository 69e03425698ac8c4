"""Waiting that a signal or the end of a child cuts short."""

from __future__ import annotations

import os
import select
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from llmperf.plugins.asking import new_request


class Wakeup:
    """While entered, the given signals are noted instead of ending the process, and wake `wait` at once.

    So does the end of a child process. Outside the main thread, where Python lets no one handle signals, it only waits.
    """

    def __init__(self, *signals: signal.Signals) -> None:
        self._signals = signals
        self._previous: dict[signal.Signals, Any] = {}
        self._previous_descriptor = -1
        self._read, self._write = os.pipe()
        self.signal: int | None = None
        """The first of the signals that came."""
        self.count = 0
        """How many came."""

    def wait(self, seconds: float) -> None:
        """Return after `seconds`, or sooner if something happened."""
        if select.select([self._read], [], [], seconds)[0]:
            os.read(self._read, 4096)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not new_request(number):
            return
        self.signal = number if self.signal is None else self.signal
        self.count += 1

    def __enter__(self) -> Wakeup:
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        if threading.current_thread() is threading.main_thread():
            for one in self._signals:
                if signal.getsignal(one) is not signal.SIG_IGN:  # nohup stays nohup
                    self._previous[one] = signal.signal(one, self._note)
            self._previous[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda number, frame: None)
            self._previous_descriptor = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._previous:
            signal.set_wakeup_fd(self._previous_descriptor)
        for one, handler in self._previous.items():
            signal.signal(one, handler if handler is not None else signal.SIG_DFL)
        os.close(self._read)
        os.close(self._write)
