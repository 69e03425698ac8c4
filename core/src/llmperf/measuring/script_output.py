"""What a process prints, copied to a rank's log as it comes and cut into lines."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Iterator
from typing import IO, NamedTuple

from llmperf.measuring.moment import Moment

READ_BYTES = 2**16
DRAIN_SECONDS = 1.0
"""For what a process had printed when it ended; what a child that outlives it prints is not waited for."""
MAX_LINE_BYTES = 2**16
"""What is longer is no line of a log that tells of a step; its beginning is dropped."""


class Line(NamedTuple):
    """One line, and when it came."""

    text: str
    moment: Moment


class Output:
    """The standard output of a running process, read by the one who started it."""

    def __init__(self, process: subprocess.Popen[bytes], log: int) -> None:
        assert process.stdout is not None
        self._process = process
        self._pipe: IO[bytes] = process.stdout
        self._log = log
        self._rest = b""
        self.over = False
        """Whether nothing more will come: the process has ended, and what it had printed has been read."""

    def lines(self, seconds: float) -> Iterator[Line]:
        """The lines that come next, waiting for the first of them no longer than `seconds`.

        The end of the process is the end of its output, also where a child of it still holds the pipe.
        """
        ended = self._process.poll() is not None
        until = time.monotonic() + seconds + DRAIN_SECONDS
        while select.select([self._pipe], [], [], 0.0 if ended else seconds)[0] and time.monotonic() < until:
            data = os.read(self._pipe.fileno(), READ_BYTES)
            moment = Moment.now()
            if not data:
                ended = True
                break
            self._copy(data)
            yield from (Line(text, moment) for text in self._cut(data))
            if not ended:
                return
        if ended:
            self.over = True
            yield from (Line(text, Moment.now()) for text in self._cut(b"\n") if text)

    def _copy(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._log, data) :]

    def _cut(self, data: bytes) -> list[str]:
        """Whole lines; a carriage return ends one too, as progress bars write it."""
        *whole, rest = (self._rest + data).replace(b"\r", b"\n").split(b"\n")
        self._rest = rest[-MAX_LINE_BYTES:]
        return [line[-MAX_LINE_BYTES:].decode("utf-8", "replace") for line in whole]
