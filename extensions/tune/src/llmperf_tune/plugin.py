"""llmperf extension `tune`: in the runs of a search, the observer that ends those which are clearly behind."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import Observer

VARIABLE = "LLMPERF_TUNE_STOP"
"""The file that says when a run is behind, in the processes that a search starts."""


@hookimpl
def llmperf_observers() -> list[Observer]:
    """One observer in the runs of a search, else none."""
    if VARIABLE not in os.environ:
        return []
    from llmperf_tune.early_stop import EarlyStop

    return [EarlyStop(os.environ[VARIABLE])]
