"""Logs of bounded size: the first and the last megabytes of what a rank prints.

A rank writes into its file itself, so it never waits for a reader and loses nothing when its agent is killed. While it
runs, the agent gives the space in the middle back to the file system; afterwards the file is written anew without it.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from llmperf.errors import UserError
from llmperf.files import json_files

HEAD_BYTES = TAIL_BYTES = 4 * 2**20
"""Kept of the beginning and of the end of each log."""
BLOCK_BYTES = 2**20
"""Space is given back in multiples of this."""

_KEEP_SIZE_AND_PUNCH_HOLE = 0x03


class GrowingLog:
    """A log that somebody is writing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._freed = HEAD_BYTES
        """Up to here there is nothing left to give back."""

    def trim(self) -> None:
        """Give back the space of what will be left out; a file system that cannot (NFS) keeps it until the end."""
        with suppress(OSError):
            end = (self._path.stat().st_size - TAIL_BYTES) // BLOCK_BYTES * BLOCK_BYTES
            if end > self._freed:
                _punch(self._path, self._freed, end - self._freed)
                self._freed = end


def _punch(path: Path, begin: int, length: int) -> None:
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    with path.open("rb+") as file:
        libc = ctypes.CDLL(None, use_errno=True)
        fallocate = libc.fallocate64 if hasattr(libc, "fallocate64") else libc.fallocate  # musl has the latter alone
        if fallocate(file.fileno(), _KEEP_SIZE_AND_PUNCH_HOLE, ctypes.c_int64(begin), ctypes.c_int64(length)):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def shorten(path: Path) -> None:
    """Cut a log that nobody writes any more to its first and last bytes, in whole lines, and say what was left out.

    A log that cannot be written anew, on a full disk, stays as it is.
    """
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
