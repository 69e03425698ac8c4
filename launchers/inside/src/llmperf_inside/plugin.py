"""Hook implementations of the launcher `inside`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import Launcher


@hookimpl
def llmperf_launchers() -> Iterable[Launcher]:
    """Processes that another engine has started."""
    from llmperf_inside.launcher import InsideLauncher

    return [InsideLauncher()]
