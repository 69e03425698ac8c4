"""llmperf extension `scripts`: the task of ranks that run an external script."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import RankTask


@hookimpl
def llmperf_rank_tasks() -> Iterable[RankTask]:
    """The task `script`, by which the core starts each rank of a plan with a `Script`."""
    from llmperf.types import RankTask

    from llmperf_scripts.watcher import follow_script

    return [RankTask(name="script", run=follow_script, binds_device=False)]
