"""Appends records to a file as JSON lines, and takes the moments that they record."""

from __future__ import annotations

import errno
import os
import time
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import msgspec

from llmperf.errors import RunFailed
from llmperf.files.text import encodable, redacted, secret_values
from llmperf.types.records import FailureRecord

MAX_MESSAGE = 4_000
MAX_TRACEBACK = 40_000


class Moment(NamedTuple):
    """One moment by both clocks of a host: the wall clock, which may be set, and the monotonic one, for intervals."""

    at: float
    """Seconds since the epoch."""
    monotonic: float
    """Seconds of CLOCK_MONOTONIC, which all processes of a host share."""

    @classmethod
    def now(cls) -> Moment:
        """This moment."""
        return cls(time.time(), time.monotonic())

    def earlier(self, seconds: float) -> Moment:
        """The moment so many seconds before this one, but not before the clocks' zero."""
        return Moment(max(0.0, self.at - seconds), max(0.0, self.monotonic - seconds))


class Recorder:
    """An append-only file of JSON lines. Each line is one write, so a process that is killed leaves whole lines.

    `reserve` is a file that reserves space: it is deleted when the disk is full, so that the failure can be recorded.
    """

    def __init__(self, path: Path, reserve: Path | None = None) -> None:
        self.path = path
        self._reserve = reserve
        self._encode = msgspec.json.Encoder().encode
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise self._failed(error) from None

    def write(self, record: object) -> None:
        """Append one record, a failure without secrets; RunFailed if the disk is full or the file cannot be written."""
        if isinstance(record, FailureRecord):
            secrets = secret_values(os.environ)
            message = encodable(redacted(record.message, secrets))[:MAX_MESSAGE]
            traceback = encodable(redacted(record.traceback, secrets))[-MAX_TRACEBACK:]
            record = replace(record, message=message, traceback=traceback)
        line = self._encode(record) + b"\n"
        try:
            written = os.write(self._file, line)
        except OSError as error:
            raise self._failed(error) from None
        if written != len(line):
            os.ftruncate(self._file, os.fstat(self._file).st_size - written)
            raise self._failed(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

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
