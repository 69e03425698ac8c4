"""Hook implementations of the launcher `slurm`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import llmperf

if TYPE_CHECKING:
    from llmperf.types import Launcher


@llmperf.hookimpl
def llmperf_launchers() -> Iterable[Launcher]:
    """The launcher `slurm`."""
    from llmperf_slurm.launcher import SlurmLauncher

    return [SlurmLauncher()]
