"""Hook implementations of the launcher `ssh`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import Launcher


@hookimpl
def llmperf_launchers() -> Iterable[Launcher]:
    """The launcher for hosts that the user can log in to."""
    return [_launcher()]


@cache
def _launcher() -> Launcher:
    """One launcher for the whole process: it keeps the options with which its hosts are reached."""
    from llmperf_ssh.launcher import SshLauncher

    return SshLauncher()
