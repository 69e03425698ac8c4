"""Appending records to a file, one whole JSON line at a time, and the moments that they note."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import msgspec

from llmperf.errors import RunFailed
from llmperf.types.records import Record


class Moment(NamedTuple):
    """The wall clock says when a thing happened, and may be set at any time; intervals come from the monotonic one."""

    at: float
    """Seconds since the epoch."""
    monotonic: float
    """Seconds of CLOCK_MONOTONIC, which all processes of a host share."""

    @classmethod
    def now(cls) -> Moment:
        """This moment."""
        return cls(time.time(), time.monotonic())

    def earlier(self, seconds: float) -> Moment:
        """The moment that lies so many seconds before this one; no clock has one before its 0."""
        return Moment(max(0.0, self.at - seconds), max(0.0, self.monotonic - seconds))


class Recorder:
    """An append-only file of JSON lines; each line is one write, so a process killed at any time leaves whole lines.

    `reserve` is a file that holds space back: it is deleted when the disk is full, so that the failure itself can
    still be written.
    """

    def __init__(self, path: Path, reserve: Path | None = None) -> None:
        self.path = path
        self._reserve = reserve
        self._encode = msgspec.json.Encoder().encode
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise self._failed(error) from None

    def write(self, record: Record) -> None:
        """Append one record; RunFailed if the disk is full or the file cannot be written."""
        line = self._encode(record) + b"\n"
        try:
            written = os.write(self._file, line)
        except OSError as error:
            raise self._failed(error) from None
        if written != len(line):
            self._drop(written)
            raise self._failed(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    def _drop(self, written: int) -> None:
        """Take back part of a line, so that lines written later stay readable."""
        os.ftruncate(self._file, os.fstat(self._file).st_size - written)

    def _failed(self, error: OSError) -> RunFailed:
        if error.errno in (errno.ENOSPC, errno.EDQUOT) and self._reserve is not None:
            self._reserve.unlink(missing_ok=True)
        return RunFailed(f"{self.path}: cannot write a record: {error.strerror or error}")

    def close(self) -> None:
        """Close the file; further writes are errors."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
