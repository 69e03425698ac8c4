"""Submits a command as a job."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from llmperf.errors import UserError
from llmperf.types import Submission

from llmperf_slurm.options import SlurmOptions
from llmperf_slurm.script import batch_script, job_folder, output_files
from llmperf_slurm.tools import SlurmError, call


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A submitted job."""

    job: str
    """Its number; for an array, that of the whole array."""
    tasks: int
    """Tasks of the array; 1 for a job that is none."""
    output: str
    """Pattern of the files for standard output, as sbatch takes it."""
    errors: str

    def files(self, task: str) -> tuple[Path, Path]:
        """The files of standard output and standard error; `task` is the task's number, empty for a job without any."""

        def path(pattern: str) -> Path:
            folder, _, name = pattern.rpartition("/")
            name = name.replace("%A", self.job).replace("%a", task).replace("%j", self.job)
            return Path(folder.replace("%%", "%")) / name

        return path(self.output), path(self.errors)


def submit(submission: Submission, options: SlurmOptions, say: Callable[[str], None]) -> Job:
    """Write the batch script to a folder among the run folders and submit it; UserError with sbatch's reason."""
    folder = job_folder(submission)
    text = batch_script(submission, options)
    script = folder / f"slurm-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{time.time_ns() % 1_000_000:06d}.sbatch"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        script.write_text(text)
    except OSError as error:
        raise UserError(f"{script}: cannot write: {error.strerror}") from None
    try:
        printed = call("sbatch", "--parsable", str(script))
    except SlurmError as error:
        raise UserError(f"{script}: sbatch refused it: {error}") from None
    number = printed.strip().splitlines()[-1].partition(";")[0] if printed.strip() else ""
    if not number.isdigit():
        raise UserError(f"{script}: expected the number of a job from sbatch, found {printed[:200]!r}")
    say(f"submitted job {number} ({script})")
    output, errors = output_files(submission)
    return Job(job=number, tasks=submission.tasks, output=output, errors=errors)
