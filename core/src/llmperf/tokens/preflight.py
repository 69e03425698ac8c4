"""Checks of the data of a run before it starts: problems and the fingerprint.

Imports nothing heavy, so that the controller can use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmperf.tokens.data_sets import DataError

if TYPE_CHECKING:
    from llmperf.types import Batch, Problem, RunSpec


def check_data(spec: RunSpec, batch: Batch | None) -> tuple[Problem, ...]:
    """The problems with which `open_batches` would fail on this machine; empty if there are none.

    Reads the files, and leaves text tokenised in the cache. If `batch` is None because its
    arithmetic failed, the number of samples is not checked.
    """
    from llmperf.tokens.sources import open_samples
    from llmperf.types.plan_checks import Problem

    try:
        open_samples(spec, batch)
    except DataError as error:
        return (Problem(code="data_unusable", where=error.where, message=error.message),)
    return ()


def data_fingerprint(spec: RunSpec, batch: Batch | None) -> str | None:
    """SHA-256 that identifies the data of a run on this machine; None if they cannot be read."""
    from llmperf.tokens.sources import open_samples

    try:
        return open_samples(spec, batch).fingerprint
    except DataError:
        return None
