"""Hook implementations of the launcher `kubernetes`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import Launcher


@hookimpl
def llmperf_launchers() -> Iterable[Launcher]:
    """The launcher `kubernetes`, always the same: it remembers the job that it has created."""
    return [_launcher()]


@cache
def _launcher() -> Launcher:
    from llmperf_kubernetes.launcher import KubernetesLauncher

    return KubernetesLauncher()
