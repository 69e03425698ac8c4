"""What a plugin may change in the process of a command, and its restoration after each call of a plugin."""

from __future__ import annotations

import builtins
import os
import signal
import sys
from contextlib import suppress
from typing import Any, NamedTuple

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_BUILTINS = ("open", "print")


class ProcessState(NamedTuple):
    """The state before a call."""

    stdout: Any
    stderr: Any
    recursion_limit: int
    handlers: tuple[Any, ...]
    """Of the signals that end a command."""
    functions: tuple[Any, ...]
    folder: tuple[int, int] | None
    """Device and inode of the working directory."""


def present_state() -> ProcessState:
    """The state now. For the main thread, which alone may set signal handlers."""
    return ProcessState(
        sys.stdout,
        sys.stderr,
        sys.getrecursionlimit(),
        tuple(map(signal.getsignal, _SIGNALS)),
        tuple(getattr(builtins, name) for name in _BUILTINS),
        _working_directory(),
    )


def restore(state: ProcessState, folder: int | None) -> str | None:
    """Restore the state; returns what was changed. `folder` is a descriptor of the working directory.

    A higher recursion limit is kept: it harms nobody, and the plugin's own code may need it.
    """
    changed = []
    if sys.stdout is not state.stdout or sys.stderr is not state.stderr:
        sys.stdout, sys.stderr = state.stdout, state.stderr
        changed.append("sys.stdout or sys.stderr")
    if sys.getrecursionlimit() < state.recursion_limit:
        sys.setrecursionlimit(state.recursion_limit)
        changed.append("the recursion limit")
    for number, handler in zip(_SIGNALS, state.handlers, strict=True):
        if handler is not None and signal.getsignal(number) is not handler:
            signal.signal(number, handler)
            changed.append(f"the handler of {signal.Signals(number).name}")
    for name, function in zip(_BUILTINS, state.functions, strict=True):
        if getattr(builtins, name) is not function:
            setattr(builtins, name, function)
            changed.append(f"the built-in {name}")
    if folder is not None and state.folder is not None and _working_directory() != state.folder:
        with suppress(OSError):
            os.fchdir(folder)
        changed.append("the working directory")
    return " and ".join(changed) or None


def open_working_directory() -> int | None:
    """A descriptor of the working directory, that `restore` can return to; None if it cannot be opened."""
    try:
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None


def _working_directory() -> tuple[int, int] | None:
    try:
        status = os.stat(".")
    except OSError:
        return None
    return status.st_dev, status.st_ino
