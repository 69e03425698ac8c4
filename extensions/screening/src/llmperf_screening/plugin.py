"""llmperf extension `screening`: an option of `llmperf run` and `doctor`, and its task of the node program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import CommandOptions, NodeTask


@hookimpl
def llmperf_command_options(command: str) -> Iterator[CommandOptions]:
    """`--screening/--no-screening` of commands that reach several nodes, `--wait-until-idle` of `run`."""
    if command in ("run", "doctor"):
        from llmperf_screening.check import options_of

        yield options_of(command)
    if command == "run":
        from llmperf_screening.idle import options

        yield options()


@hookimpl
def llmperf_node_tasks() -> Iterator[NodeTask]:
    """The stages of a screening on one node."""
    from llmperf.types import NodeTask

    from llmperf_screening.node import NodeScreening
    from llmperf_screening.stages import TASK

    yield NodeTask(name=TASK, begin=NodeScreening)
