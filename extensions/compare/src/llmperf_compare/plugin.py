"""llmperf extension `compare`: rows on cost and scaling in `llmperf report`, which shows each run once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import CommandOptions


@hookimpl
def llmperf_command_options(command: str) -> Iterator[CommandOptions]:
    """`--prices` and `--train-tokens` of `llmperf report`."""
    if command == "report":
        from llmperf_compare.options import report_options

        yield report_options()
