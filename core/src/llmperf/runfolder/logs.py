"""Logs of ranks: bounded size, first and last megabytes kept, and the last lines for a result.

A rank writes to its log file directly, so it never waits for a reader, and nothing is lost when its agent is killed.
While the rank runs, the agent returns the space in the middle of the file to the file system; after the run the file is
rewritten without the middle.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.files.text import printable, redacted

HEAD_BYTES = TAIL_BYTES = 4 * 2**20
"""Bytes of the beginning and of the end of each log that are kept."""
BLOCK_BYTES = 2**20
"""Space is returned in multiples of this size."""
RESULT_BYTES = 32 * 1024
"""Bytes of the end of a log that are searched for its last lines."""
MAX_LINE = 500
"""Characters of a log line that a result shows."""

_KEEP_SIZE_AND_PUNCH_HOLE = 0x03


class GrowingLog:
    """A log that a rank is writing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._freed = HEAD_BYTES
        """Offset in bytes up to which all space has been returned."""

    def trim(self) -> None:
        """Return the space of the middle; a file system that cannot do this (NFS) keeps it until the run has ended."""
        with suppress(OSError):
            end = (self._path.stat().st_size - TAIL_BYTES) // BLOCK_BYTES * BLOCK_BYTES
            if end <= self._freed or not sys.platform.startswith("linux"):
                return
            import ctypes

            begin, length = ctypes.c_int64(self._freed), ctypes.c_int64(end - self._freed)
            with self._path.open("rb+") as file:
                libc = ctypes.CDLL(None, use_errno=True)
                fallocate = libc.fallocate64 if hasattr(libc, "fallocate64") else libc.fallocate  # as in musl
                if fallocate(file.fileno(), _KEEP_SIZE_AND_PUNCH_HOLE, begin, length) == 0:
                    self._freed = end


def shorten(path: Path) -> None:
    """Reduce a finished log to its first and last bytes, in whole lines, with a note, if it can be."""
    with suppress(OSError, UserError):
        size = path.stat().st_size
        if size <= HEAD_BYTES + TAIL_BYTES + BLOCK_BYTES:
            return
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            file.seek(-TAIL_BYTES, os.SEEK_END)
            tail = file.read(TAIL_BYTES)
        head = head[: head.rfind(b"\n") + 1] or head
        tail = tail[tail.find(b"\n") + 1 :] or tail
        left_out = size - len(head) - len(tail)
        note = f"[llmperf: {left_out} of {size} bytes are left out here; the first and last 4 MiB of a log are kept]\n"
        json_files.write_bytes(path, head.rstrip(b"\n") + b"\n" + note.encode() + tail)


def log_tail(path: Path, lines: int, secrets: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The last lines of a log, without control characters and secrets; empty if there is no log."""
    try:
        with json_files.open_regular(path) as file:
            file.seek(max(0, path.stat().st_size - RESULT_BYTES))
            text = file.read(RESULT_BYTES).decode(errors="replace")
    except OSError:
        return ()
    last = redacted(text, secrets).splitlines()[-lines:]
    return tuple(printable(line, " ").rstrip()[:MAX_LINE] for line in last)
