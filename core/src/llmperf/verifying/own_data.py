"""The validator's own copy of a submission's data: no path of a submission is ever read."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path

from llmperf.errors import LlmperfError
from llmperf.planning.user_config import UserConfig
from llmperf.tokens.data_sets import PYTHON_STDLIB, SYNTHETIC
from llmperf.types.result import Result
from llmperf.types.spec import DataSource


class Impossible(LlmperfError):
    """A check that cannot be made on this machine; the message says why."""


def own_data(result: Result, config: UserConfig) -> DataSource:
    """Where the data set is on this machine; Impossible if that is unknown, or its tokens would be others here."""
    dataset, here = result.contract.dataset, platform.python_version()
    if dataset == SYNTHETIC:
        return DataSource()
    if dataset == PYTHON_STDLIB:
        if result.software.python != here:
            raise Impossible(f"its data are the library of Python {result.software.python}; this is Python {here}")
        return DataSource()
    known = config.tables.data.get(dataset)
    if known is None or known.path is None:
        raise Impossible(
            f"data set {dataset!r} is read from a file: name it in your own llmperf.toml, [data.{dataset}] path"
        )
    beside = Path() if config.path is None else config.path.parent
    return replace(known, path=str(beside / Path(known.path).expanduser()))
