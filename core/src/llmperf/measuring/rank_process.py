"""End of the process of a rank, at once and with the cause recorded, and what Python loaded at its beginning."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
import time
import traceback
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from typing import NoReturn

from llmperf.files.text import printable
from llmperf.runfolder.reader import Recorder
from llmperf.types.records import FailureRecord


def fail(recorder: Recorder, rank: int, error: BaseException, place: str = "") -> NoReturn:
    """Record why and where this rank ends, and end it without closing what could wait for other ranks."""
    text = "".join(traceback.format_exception(error))
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    message = str(error)
    if isinstance(error, SystemExit):
        message = f"sys.exit({error.code!r}) before the last step" + (f", {place}" if place else "")
    record = FailureRecord(rank=rank, at=time.time(), exception=name, message=message, traceback=text)
    for _ in range(2):  # the first write to a full disk frees the reserve, so that the second succeeds
        with suppress(Exception):
            recorder.write(record)
            break
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)
    os._exit(1)


def leave(code: int) -> NoReturn:
    """End the process, when all is recorded, without the interpreter's shutdown, where native code aborts."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


MAX_PATH = 200
"""Characters of a path that are recorded."""


def startup_modules() -> dict[str, str]:
    """Files of `sitecustomize` and `usercustomize`, by name; without those that came with the interpreter."""
    names = ["sitecustomize", *(["usercustomize"] if site.ENABLE_USER_SITE else [])]
    shipped = Path(sysconfig.get_path("stdlib")).resolve()
    files = {}
    for name in names:
        spec = None if sys.flags.no_site else PathFinder.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        if Path(spec.origin).parent.resolve() != shipped:  # not the file's own folder: Debian has a link to /etc there
            files[name] = printable(spec.origin, "?")[:MAX_PATH]
    return files
