"""The process above a node's agent: after the agent has ended, for any reason, it ends all processes of the run.

A process that a rank started may have cleared its environment and run in its own session. When its parent ends,
its new parent is the nearest ancestor that adopts orphans: the agent, and after the end of the agent, the guard.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from llmperf.measuring.processes import adopt_orphans, end_descendants, end_with_parent, reap_children, send

PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def guarded(work: Callable[[], int]) -> int:
    """Run `work` in a child process and return its exit code, or end by the signal that ended it.

    The first signal that asks to end is passed on to the child; a second one kills everything. On systems other than
    Linux, `work` runs in this process.
    """
    if not sys.platform.startswith("linux"):
        return work()
    adopt_orphans()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (*PASSED_ON, signal.SIGCHLD))
    bind = end_with_parent(signal.SIGTERM)
    child = os.fork()
    if child == 0:
        _work(work, bind, mask)
    code = _code(child)
    end_descendants()
    if code < 0:
        number = signal.Signals(-code)
        with suppress(OSError, ValueError):  # SIGKILL has no handler to reset
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask - {number})
        os.kill(os.getpid(), number)
        signal.pause()
        os._exit(1)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return code


def _work(work: Callable[[], int], bind: Callable[[], None] | None, mask: set[int | signal.Signals]) -> NoReturn:
    try:
        adopt_orphans()
        if bind is not None:
            bind()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        code = work()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _code(child: int) -> int:
    """The exit code of the child, negative for signals, once it has ended."""
    asked = False
    while True:
        number = signal.sigwait((*PASSED_ON, signal.SIGCHLD))
        if number == signal.SIGCHLD:
            codes = reap_children()
            if child in codes:
                return codes[child]
        elif asked:
            end_descendants()
            return -signal.SIGKILL
        else:
            asked = True
            send(child, signal.Signals(number))
