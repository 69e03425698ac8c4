"""Hook implementations of the launcher `ray`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import Launcher


@hookimpl
def llmperf_launchers() -> Iterable[Launcher]:
    """Nodes of a Ray cluster."""
    from llmperf_ray.launcher import RayLauncher

    return [RayLauncher()]
