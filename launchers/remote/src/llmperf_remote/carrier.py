"""A process that a launcher has given, which carries the lines of one or more nodes."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import IO

from llmperf.errors import UserError
from llmperf.types import NodeCommand

TAIL_BYTES = 64 * 1024
"""Bytes of the end of its standard error that explain its end."""
MAX_ERRORS_BYTES = 2**20
"""Bytes of its standard error and of stray prints that are kept in a file."""


PER_NODE = 2
SPARE = 64


class Carrier:
    """A process that a launcher has given, with the lines that wait to be written to it."""

    def __init__(self, command: NodeCommand, errors: Callable[[], IO[bytes]], launcher: str) -> None:
        """Start it. `errors` opens the file for its standard error and stray prints, at its end."""
        self.command = command
        self._errors = errors
        self._kept = 0
        self._closed = False
        self._tail = b""
        self.ranks: set[int] = set()
        """Nodes whose lines have come from it."""
        self.buffer = bytearray()
        self.waiting: deque[bytes] = deque()
        self.finished = False
        self._lines, theirs = socket.socketpair()  # one descriptor for both ways: there may be hundreds of nodes
        try:
            self.popen = subprocess.Popen(
                command.argv,
                env={**os.environ, **command.env},
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.PIPE,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            self._lines.close()
            raise UserError(f"launcher {launcher!r}: cannot start {command.argv[0]}: {error.strerror}") from None
        finally:
            theirs.close()
        assert self.popen.stderr is not None
        self.output, self.error_output = self._lines.fileno(), self.popen.stderr
        for descriptor in (self.output, self.error_output.fileno()):
            os.set_blocking(descriptor, False)

    def write_waiting(self) -> None:
        """Write as much as the process takes."""
        while self.waiting and not self._closed:
            data = self.waiting[0]
            try:
                written = os.write(self.output, data)
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
        self._closed = True
        with suppress(OSError):
            self._lines.shutdown(socket.SHUT_WR)

    def read_errors(self) -> bool:
        """Keep what it has written to standard error; returns whether more may come."""
        try:
            data = os.read(self.error_output.fileno(), TAIL_BYTES)
        except BlockingIOError:
            return True
        except (OSError, ValueError):
            return False
        self.keep(data)
        return bool(data)

    def keep(self, data: bytes) -> None:
        """Append to the file for errors, up to MAX_ERRORS_BYTES; the end is remembered in any case."""
        self._tail = (self._tail + data)[-TAIL_BYTES:]
        part = data[: max(0, MAX_ERRORS_BYTES - self._kept)]
        self._kept += len(part)
        if part:
            with suppress(OSError), self._errors() as file:
                file.write(part)

    def last_errors(self) -> str:
        """The end of what it has written to standard error."""
        before = None
        while before != self._tail:  # what is still in the pipe
            before = self._tail
            self.read_errors()
        return self._tail.decode(errors="replace")

    def close(self) -> None:
        """Close all files, after it has ended."""
        self.last_errors()
        for file in (self._lines, self.error_output):
            with suppress(OSError):
                file.close()


def make_room(nodes: int, launcher: str) -> None:
    """Raise the limit of open files as far as connections to so many nodes need it; UserError if it cannot."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = PER_NODE * nodes + SPARE
    with suppress(OSError):
        needed += len(os.listdir("/proc/self/fd"))
    if soft == resource.RLIM_INFINITY or needed <= soft:
        return
    try:
        most_allowed = hard if hard == resource.RLIM_INFINITY else max(hard, needed)  # root may raise both limits
        resource.setrlimit(resource.RLIMIT_NOFILE, (most_allowed, most_allowed))
    except (ValueError, OSError):
        most = max(0, (hard - (needed - PER_NODE * nodes)) // PER_NODE)
        raise UserError(
            f"launcher {launcher!r}: expected a limit of {needed:,} open files for {nodes:,} nodes, found {hard:,}"
            f" (ulimit -Hn), which is enough for {most:,}; raise it, such as by nofile in limits.conf or LimitNOFILE of"
            " systemd"
        ) from None
