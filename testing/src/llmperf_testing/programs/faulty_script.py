"""Runs a rank's script as a run does, and lets it fail: `faulty_script FAULT RANK -- COMMAND...`.

`killed`: the script of that rank is killed once two steps are recorded. `no-folder`: every rank's script gets a run
folder that does not exist. Other ranks' scripts run undisturbed in this process's place.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from llmperf.runfolder import filenames
from llmperf.runfolder.reader import RecordFile
from llmperf.types import StepRecord

STEPS = 2
"""Recorded steps after which the script is killed."""
NO_FOLDER = "no-such-folder"


def main(arguments: Sequence[str]) -> None:
    """Replace this process by the script, or start the script and kill it."""
    fault, faulty_rank, _, *command = arguments
    run, rank = os.environ["LLMPERF_RUN_DIR"], os.environ["RANK"]
    if fault == "no-folder":
        command = [word.replace(run, os.path.join(run, NO_FOLDER)) for word in command]
    if fault != "killed" or rank != faulty_rank:
        os.execvp(command[0], command)
    process = subprocess.Popen(command)
    records = RecordFile(filenames.records_path(Path(run), int(rank)))
    steps = 0
    while process.poll() is None and steps < STEPS:
        time.sleep(0.02)
        steps += sum(isinstance(record, StepRecord) for record in records.new())
    process.kill()
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
