"""How a rank's process ends: at once, with all that is known recorded."""

from __future__ import annotations

import os
import sys
import time
import traceback
from contextlib import suppress
from typing import NoReturn

from llmperf.files.redaction import redacted, secret_values
from llmperf.runfolder.recorder import Recorder
from llmperf.types.records import FailureRecord

MAX_MESSAGE = 4_000
MAX_TRACEBACK = 40_000


def fail(recorder: Recorder, rank: int, error: BaseException) -> NoReturn:
    """Record why this rank ends and end it: closing what hangs on other ranks could take for ever."""
    text = "".join(traceback.format_exception(error))
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    record = failure(rank, time.time(), name, _message(error), text)
    for _ in range(2):  # the first write to a full disk frees the reserve, so that the second succeeds
        with suppress(Exception):
            recorder.write(record)
            break
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)
    os._exit(1)


def failure(rank: int, at: float, exception: str, message: str, trace: str) -> FailureRecord:
    """The record of a rank's end, cut to what a record may hold."""
    secrets = secret_values(os.environ)
    return FailureRecord(
        rank=rank,
        at=at,
        exception=exception,
        message=_plain(redacted(message, secrets))[:MAX_MESSAGE],
        traceback=_plain(redacted(trace, secrets))[-MAX_TRACEBACK:],
    )


def _message(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"sys.exit({error.code!r}) before the last step"
    return str(error)


def _plain(text: str) -> str:
    """Text that UTF-8 can hold."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def leave(code: int) -> NoReturn:
    """End the process at once: all is closed and recorded, and what native libraries do while the interpreter is
    taken apart is not part of the run. Threads of a process group have aborted there, after the last record.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
