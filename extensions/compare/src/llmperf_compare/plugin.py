"""llmperf extension `compare`: rows on cost and scaling in `llmperf report`, which shows each run once; CI formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import CommandOptions, FileFindings


@hookimpl
def llmperf_command_options(command: str) -> Iterator[CommandOptions]:
    """`--prices` and `--train-tokens` of `llmperf report`, and the formats of `llmperf validate` for CI services."""
    if command == "report":
        from llmperf_compare.options import report_options

        yield report_options()
    if command == "validate":
        from llmperf.types import CommandOptions

        yield CommandOptions(
            formats={name: partial(_rendered, name) for name in ("github", "sarif", "junit")},
            examples="  llmperf validate runs/ --format sarif > findings.sarif",
        )


def _rendered(name: str, files: Sequence[FileFindings]) -> str:
    from llmperf_compare import finding_formats

    document: str = getattr(finding_formats, name)(files)
    return document
