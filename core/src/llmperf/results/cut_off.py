"""How far a run came that has no result: it has not ended yet, or llmperf itself was killed."""

from __future__ import annotations

import os
from pathlib import Path

from llmperf.errors import UserError
from llmperf.runfolder import filenames
from llmperf.runfolder.contents import read_run


def how_far(folder: Path) -> str | None:
    """What the records of a run folder without a result say, such as `120 of 3000 steps are recorded`.

    None where it is no such folder, or its records cannot be read.
    """
    begun = (folder / filenames.PLAN).is_file() and (folder / filenames.RECORDS).is_dir()
    if not begun or os.path.lexists(folder / filenames.RESULT):
        return None
    try:
        records = read_run(folder)
    except UserError:
        return None
    return f"{len(records.complete_steps)} of {records.plan.spec.contract.steps} steps are recorded"
