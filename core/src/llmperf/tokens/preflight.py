"""The data of a run, checked before anything is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmperf.tokens.problems import DataError

if TYPE_CHECKING:
    from llmperf.types import Batch, Problem, RunSpec


def check_data(spec: RunSpec, batch: Batch | None) -> tuple[Problem, ...]:
    """What would stop `open_batches` on this machine; empty if nothing would.

    Reads the files, and leaves text tokenised in the cache. `batch` is None where its arithmetic failed: then
    it is not asked whether the data last.
    """
    from llmperf.tokens.sources import open_samples
    from llmperf.types import Problem

    try:
        open_samples(spec, batch)
    except DataError as error:
        return (Problem(code="data_unusable", where=error.where, message=error.message),)
    return ()
