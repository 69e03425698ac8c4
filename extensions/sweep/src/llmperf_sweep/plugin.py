"""llmperf extension `sweep`: `--matrix` and `--scale` of `llmperf run`, and the observer of a search's trials."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import CommandOptions, Observer

VARIABLE = "LLMPERF_TUNE_STOP"
"""The file that says when a run is behind, in the processes that a search starts."""


@hookimpl
def llmperf_command_options(command: str) -> Iterator[CommandOptions]:
    """Many runs in place of one, as options of `llmperf run`."""
    if command == "run":
        from llmperf_sweep.options import run_options

        yield run_options()


@hookimpl
def llmperf_observers() -> list[Observer]:
    """One observer in the runs of a search, which ends those that are clearly behind; else none."""
    if VARIABLE not in os.environ:
        return []
    from llmperf_sweep.tune.early_stop import EarlyStop

    return [EarlyStop(os.environ[VARIABLE])]
