"""Reports which plugin is being called to the process that waits for this command (`cli/program.py`)."""

from __future__ import annotations

import os
import sys
from _thread import get_ident
from collections.abc import Callable, Iterator
from contextlib import contextmanager

VARIABLE = "LLMPERF_PLUGIN_SECONDS"
"""Environment variable with the time limit for one answer of a plugin, in seconds."""
DEFAULT_SECONDS = 60.0
FACTORS = {"llmperf_peak_flops": 10.0, "llmperf_time_peak": 10.0}
"""Factors on the time limit, for hooks that may have to measure."""

_report: Callable[..., None] | None = None
_thread = 0
_asked: list[tuple[str, str, str]] = []
"""The calls that have not returned: plugin, call, time limit. The last was made by the one before."""


def report_to(descriptor: int) -> Callable[..., None]:
    """Report the calls of this process and thread to a pipe, in lines of words; returns what writes a line."""
    global _report, _thread

    def report(*words: str) -> None:
        line = "\t".join(" ".join(word.split())[:500] for word in words)
        os.write(descriptor, f"{line}\n".encode(errors="replace"))

    _report, _thread = report, get_ident()
    return report


def limit() -> float:
    """The time limit for one answer of a plugin, from the environment; ValueError unless it is a number above 0."""
    text = os.environ.get(VARIABLE)
    if not text:
        return DEFAULT_SECONDS
    seconds = float(text)
    if not seconds > 0:
        raise ValueError(text)
    return seconds


@contextmanager
def asking(plugin: str, what: str) -> Iterator[None]:
    """Report which plugin runs in this context, and its time limit; its forks end with the context."""
    process = os.getpid()
    report = _report if get_ident() == _thread else None
    if report is not None:
        if sys.stdout is not None:
            sys.stdout.flush()  # otherwise lost if the plugin ends the process
        _asked.append((plugin, what, str(limit() * FACTORS.get(what, 1.0))))
        report(*_asked[-1])
    try:
        yield
    finally:
        if os.getpid() != process:
            os._exit(0)
        if report is not None:
            _asked.pop()
            report(*(_asked[-1] if _asked else ("",)))
