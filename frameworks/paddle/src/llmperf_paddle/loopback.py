"""Where Paddle's ranks meet. Its stores listen on all interfaces, and take no address: on one node they are kept to the
loopback interface.
"""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress

SO_BINDTODEVICE = 25
"""Linux's constant; Python names it since 3.14."""


def choose_interface() -> None:
    """Have gloo listen on the loopback interface, unless the user has chosen one; before the first group is made."""
    if (name := interface()) is not None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", name)


def check_port() -> None:
    """OSError on the first rank where the port of the common store is in use: Paddle would abort without a word of it,
    and the controller starts the ranks again with another port only if this is reported.
    """
    if os.environ["RANK"] == "0":
        socket.create_server(("", int(os.environ["MASTER_PORT"]))).close()


def confine_stores() -> None:
    """Take connections through the loopback interface alone, on every socket of this process that listens everywhere.

    Best effort: Linux allows it to anyone since 5.7, before that to root.
    """
    name = interface()
    if name is None or not os.path.isdir("/proc/self/fd"):
        return
    for entry in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the descriptor that listed the folder is closed by now
            if stat.S_ISSOCK(os.fstat(int(entry)).st_mode):
                with socket.socket(fileno=os.dup(int(entry))) as one:
                    _confine(one, name)


def _confine(one: socket.socket, name: str) -> None:
    if one.family not in (socket.AF_INET, socket.AF_INET6) or one.getsockname()[0] not in ("0.0.0.0", "::"):
        return
    if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        one.setsockopt(socket.SOL_SOCKET, SO_BINDTODEVICE, name.encode() + b"\0")


def interface() -> str | None:
    """Name of the loopback interface; None where it has neither of its usual names."""
    names = {name for _, name in socket.if_nameindex()}
    return next((name for name in ("lo", "lo0") if name in names), None)
