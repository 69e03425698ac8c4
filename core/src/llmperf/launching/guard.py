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

from llmperf.measuring.processes import adopt_orphans, end_descendants, end_with_parent, reap_children, send
from llmperf.measuring.rank_process import leave

PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def guarded(work: Callable[[], int]) -> int:
    """Run `work` in a child process, on Linux, and return its exit code, or end by the signal that ended it."""
    if not sys.platform.startswith("linux"):
        return work()
    adopt_orphans()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (*PASSED_ON, signal.SIGCHLD))
    bind = end_with_parent(signal.SIGTERM)
    child = os.fork()
    if child == 0:
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
        leave(code)
    codes, asked = dict[int, int](), False
    while child not in codes:
        number = signal.sigwait((*PASSED_ON, signal.SIGCHLD))
        if number == signal.SIGCHLD:
            codes = reap_children()
        elif asked:
            codes = {child: -signal.SIGKILL}
        else:
            asked = True
            send(child, signal.Signals(number))
    code = codes[child]
    end_descendants()
    if code < 0:
        ending = signal.Signals(-code)
        with suppress(OSError, ValueError):  # SIGKILL has no handler to reset
            signal.signal(ending, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask - {ending})
        os.kill(os.getpid(), ending)
        signal.pause()
        os._exit(1)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return code
