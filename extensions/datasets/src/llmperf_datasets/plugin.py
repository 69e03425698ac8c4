"""llmperf extension `datasets`: data sets of text and of other programs as tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import DataSource, ReadTokens


@hookimpl(trylast=True)  # since any path is read as text
def llmperf_read_tokens(dataset: str, data: DataSource, records: bool) -> ReadTokens | None:
    """The tokens of `python-stdlib`, of SAMSum and of files."""
    from llmperf_datasets.reading import read_tokens

    return read_tokens(dataset, data, records)
