"""The core's own launchers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from llmperf.hookspecs import hookimpl

if TYPE_CHECKING:
    from llmperf.types import Launcher


@hookimpl
def llmperf_launchers() -> Iterable[Launcher]:
    """The launcher of this machine."""
    from llmperf.launching.local import LocalLauncher

    return [LocalLauncher()]
