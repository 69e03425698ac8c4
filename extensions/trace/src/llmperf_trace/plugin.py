"""llmperf extension `trace`: `--trace` of `llmperf run`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import CommandOptions


@hookimpl
def llmperf_command_options(command: str) -> Iterator[CommandOptions]:
    """A trace of further steps, as an option of `llmperf run`."""
    if command == "run":
        from llmperf_trace.traced_steps import run_options

        yield run_options()
