"""llmperf extension `trace`: `--trace` of `llmperf run`, and the tasks of ranks for it and for `llmperf profile`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import CommandOptions, RankTask


@hookimpl
def llmperf_command_options(command: str) -> Iterator[CommandOptions]:
    """A trace of further steps, as an option of `llmperf run`."""
    if command == "run":
        from llmperf_trace.traced_steps import run_options

        yield run_options()


@hookimpl
def llmperf_rank_tasks() -> Iterator[RankTask]:
    """Steps under the profiler, in place of a run and after it."""
    from llmperf.types import RankTask

    from llmperf_trace.profiled_steps import profile, trace_further_steps

    yield RankTask(name="profile", run=profile)
    yield RankTask(name="trace", run=trace_further_steps)
