"""A task of an extension in a rank, in place of training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from llmperf.errors import PluginError
from llmperf.measuring.rank_process import task_of
from llmperf.plugins.loading import Plugins
from llmperf.types.devices import Device
from llmperf.types.plan import Plan
from llmperf.types.rank_tasks import RankTask
from llmperf.types.records import Phase

HOOK = "llmperf_rank_tasks"
T = TypeVar("T")


@dataclass
class Rank:
    """Implements `llmperf.types.RankAtTask`."""

    rank: int
    plan: Plan
    device: Device
    ask: Callable[..., Any]
    enter: Callable[[Phase], None]
    record: Callable[[object], None]
    run: Path

    def task(self, kind: type[T]) -> T:
        """The dataclass that the task was given."""
        return task_of(self.run, f"{self.plan.purpose}.json", kind)


def task_named(name: str, plugins: Plugins) -> RankTask:
    """The task that a loaded extension has; PluginError if none has it."""
    for _, task in plugins.collect_items(HOOK):
        if isinstance(task, RankTask) and task.name == name:
            return task
    raise PluginError(f"no extension has the task {name!r} in this rank's environment; install its package here too")
