"""The lock that a controller holds on its run folder; the kernel releases it when the process ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from llmperf.errors import UserError
from llmperf.runfolder import filenames


@contextmanager
def held(run: Path) -> Iterator[None]:
    """Hold the lock of a run folder; UserError if another process holds it, or the folder has no plan.

    A file system without locks is accepted: there, only the processes of a run show that it is going on.
    """
    path = run / filenames.PLAN
    try:
        lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; expected a run folder") from None
    try:
        _lock(lock, run)
        yield
    finally:
        os.close(lock)


def _lock(lock: int, run: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(f"{run}: expected a run that has ended, found that its llmperf still runs") from None
    except OSError:
        return
