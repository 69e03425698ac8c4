"""A process that a launcher has given, which carries the lines of one or more nodes."""

from __future__ import annotations

import os
import subprocess
from collections import deque
from contextlib import suppress
from typing import IO

from llmperf.errors import UserError
from llmperf.types.launching import NodeCommand

MAX_STDERR_BYTES = 64 * 1024
"""How much of the end of its standard error is read."""


class Carrier:
    """A process that a launcher has given, with the lines that wait to be written to it."""

    def __init__(self, command: NodeCommand, errors: IO[bytes], launcher: str) -> None:
        self.command = command
        self.errors = errors
        self.ranks: set[int] = set()
        """Nodes whose lines have come from it."""
        self.buffer = bytearray()
        self.waiting: deque[bytes] = deque()
        self.finished = False
        try:
            self.popen = subprocess.Popen(
                command.argv,
                env={**os.environ, **command.env},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise UserError(f"launcher {launcher!r}: cannot start {command.argv[0]}: {error.strerror}") from None
        assert self.popen.stdin is not None
        assert self.popen.stdout is not None
        self.input, self.output = self.popen.stdin, self.popen.stdout
        os.set_blocking(self.input.fileno(), False)
        os.set_blocking(self.output.fileno(), False)

    def write_waiting(self) -> None:
        """Write as much as the process takes."""
        while self.waiting and not self.input.closed:
            data = self.waiting[0]
            try:
                written = os.write(self.input.fileno(), data)
            except BlockingIOError:
                return
            except OSError:  # it has ended
                self.waiting.clear()
                return
            if written == len(data):
                self.waiting.popleft()
            else:
                self.waiting[0] = data[written:]

    def close_input(self) -> None:
        """Close its standard input, so that the node programs behind it end."""
        with suppress(OSError):
            self.input.close()

    def errors_text(self) -> str:
        """The end of its standard error; empty if it cannot be read."""
        with suppress(OSError, ValueError):
            size = os.fstat(self.errors.fileno()).st_size
            return os.pread(self.errors.fileno(), MAX_STDERR_BYTES, max(0, size - MAX_STDERR_BYTES)).decode(
                errors="replace"
            )
        return ""
