"""The files that checks read and write: names in a run folder, typed JSON, digests, and the validator's own data."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from llmperf import decode, own_config, read_bytes
from llmperf.errors import LlmperfError
from llmperf.types import DataSource, Result, Text

T = TypeVar("T")

RESULT = "result.json"
"""The result in a run folder."""
PLAN = "plan.json"
"""The plan in a run folder."""
VERIFICATION = "verification.json"
"""File with the levels of verification beyond the rules."""
ARCHIVES = (".zip", ".tar.gz", ".tgz")
"""Endings of archives."""


class Impossible(LlmperfError):
    """A check that cannot be made on this machine; the message says why."""


def load(path: Path, kind: type[T]) -> T:
    """The document in a JSON file; UserError if unreadable or of another shape."""
    return decode(read_bytes(path), kind, str(path))


def own_data(result: Result) -> DataSource:
    """Location of a result's data set on this machine, never a path of a submission; Impossible if unknown."""
    dataset, here = result.contract.dataset, platform.python_version()
    if dataset == "python-stdlib" and result.software.python != here:
        raise Impossible(Text("its data are the library of Python {}; this is Python {}", result.software.python, here))
    if dataset in ("synthetic", "python-stdlib"):
        return DataSource()
    config = own_config()
    known = config.tables.data.get(dataset)
    if known is None or known.path is None:
        raise Impossible(
            Text(
                "data set {!r} is read from a file: name it in your own llmperf.toml, [data.{}] path", dataset, dataset
            )
        )
    beside = Path() if config.path is None else config.path.parent
    return replace(known, path=str(beside / Path(known.path).expanduser()))
