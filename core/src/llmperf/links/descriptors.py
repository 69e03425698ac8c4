"""Open files that the connections to nodes need, and the limit of this process for them."""

from __future__ import annotations

import os
import resource
from contextlib import suppress

from llmperf.errors import UserError

PER_NODE = 2
"""A socket for the lines to and from the process of a node, and a pipe for its errors."""
SPARE = 64
"""For everything else that is opened meanwhile."""


def make_room(nodes: int, launcher: str) -> None:
    """Raise the limit of open files as far as connections to so many nodes need it; UserError if that is not allowed.

    Processes that are started later inherit it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = _open_now() + PER_NODE * nodes + SPARE
    if soft == resource.RLIM_INFINITY or needed <= soft:
        return
    try:
        most_allowed = hard if hard == resource.RLIM_INFINITY else max(hard, needed)  # root may raise both limits
        resource.setrlimit(resource.RLIMIT_NOFILE, (most_allowed, most_allowed))
    except (ValueError, OSError):
        most = max(0, (hard - (needed - PER_NODE * nodes)) // PER_NODE)
        raise UserError(
            f"launcher {launcher!r}: expected a limit of {needed:,} open files for {nodes:,} nodes, found {hard:,}"
            f" (ulimit -Hn), which is enough for {most:,}; raise it, such as by nofile in limits.conf or LimitNOFILE of"
            " systemd"
        ) from None


def _open_now() -> int:
    with suppress(OSError):
        return len(os.listdir("/proc/self/fd"))
    return SPARE
