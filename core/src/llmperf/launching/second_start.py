"""Starting the ranks again where another process was faster to take the port that they were to meet at."""

from __future__ import annotations

import re
from pathlib import Path

from llmperf.errors import UserError
from llmperf.results.failure import log_tail
from llmperf.runfolder import filenames
from llmperf.runfolder.reader import read_records
from llmperf.types.plan import Plan
from llmperf.types.records import FailureRecord, StepRecord

TAKEN = re.compile(r"EADDRINUSE|address already in use", re.IGNORECASE)
LOG_LINES = 200
FIRST_START = "first-start"
"""Folder of the logs and records of the start that failed, below the logs."""


def port_was_taken(run: Path, plan: Plan) -> bool:
    """Whether a rank failed before the first step since it could not listen on its port."""
    ranks = range(plan.layout.world_size)
    try:
        records = [one for rank in ranks for one in read_records(filenames.records_path(run, rank))]
    except UserError:
        return False
    if any(isinstance(one, StepRecord) for one in records):
        return False
    failures = [one for one in records if isinstance(one, FailureRecord)]
    if any(TAKEN.search(one.message) or TAKEN.search(one.traceback) for one in failures):
        return True
    return any(TAKEN.search(line) for rank in ranks for line in log_tail(filenames.log_path(run, rank), LOG_LINES))


def set_aside(run: Path) -> None:
    """Move what the first start has written out of the way of the second."""
    folder = run / filenames.LOGS / FIRST_START
    folder.mkdir()
    for parent in (filenames.RECORDS, filenames.LOGS):
        for path in sorted((run / parent).iterdir()):
            if path.is_file():
                path.rename(folder / path.name)
