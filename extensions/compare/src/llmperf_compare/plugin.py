"""llmperf extension `compare`: rows on cost and scaling in `llmperf report`, which shows each run once; CI formats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import CommandOptions


@hookimpl
def llmperf_command_options(command: str) -> Iterator[CommandOptions]:
    """`--prices` and `--train-tokens` of `llmperf report`, and the formats of `llmperf validate` for CI services."""
    if command == "report":
        from llmperf_compare.options import report_options

        yield report_options()
    if command == "validate":
        from llmperf.types import CommandOptions

        from llmperf_compare.finding_formats import github, junit, sarif
        from llmperf_compare.finding_lines import with_lines

        yield CommandOptions(
            formats={
                "github": lambda files: github(with_lines(files)),
                "sarif": lambda files: sarif(with_lines(files)),
                "junit": lambda files: junit(with_lines(files)),
            },
            examples="  llmperf validate runs/ --format sarif > findings.sarif",
        )
