"""The batch script of a submitted command, and its submission."""

from __future__ import annotations

import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llmperf
from llmperf.errors import UserError
from llmperf.types import Submission

from llmperf_slurm.tools import SlurmError, call

WHERE = "llmperf.toml: launchers.slurm"

_VALUE = re.compile(r"[^\s\"'\\#\x00-\x1f\x7f]+")
"""A value in a line `#SBATCH --option=value`, which needs no quotes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmOptions:
    """Options of the user for Slurm; named as those of sbatch."""

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    time: str | None = None
    """Time limit, such as `2:00:00`."""
    gres: str | None = None
    """Devices of each node, such as `gpu:8`."""
    constraint: str | None = None
    mem: str | None = None
    """Memory of each node; all of it by default."""
    exclusive: bool = True
    """The job has its nodes for itself."""
    requeue: bool = False
    """Slurm may start the job again after preemption or the failure of a node."""
    lines: tuple[str, ...] = ()
    """Further lines of the batch script that begin with `#SBATCH`."""
    setup: tuple[str, ...] = ()
    """Shell commands of the batch script before llmperf, such as `module load cuda`."""
    srun: tuple[str, ...] = ()
    """Further options of srun, such as `--container-mounts=/data:/data`."""


VALUES = ("partition", "account", "qos", "time", "gres", "constraint", "mem")
"""Options with a value that the batch script takes as they are."""


def slurm_options(table: Mapping[str, Any]) -> SlurmOptions:
    """The checked options; UserError that names the key."""
    options = llmperf.read_options(table, SlurmOptions, WHERE)
    for name in VALUES:
        value = getattr(options, name)
        if value is not None and not _VALUE.fullmatch(value):
            raise UserError(f"{WHERE}.{name}: expected a value without spaces, quotes or #, found {value!r}")
    for line in options.lines:
        if not line.startswith("#SBATCH ") or not line.isprintable():
            raise UserError(f"{WHERE}.lines: expected lines that begin with '#SBATCH ', found {line!r}")
    for line in options.setup:
        if not line.isprintable():
            raise UserError(f"{WHERE}.setup: expected one shell command in each line, found {line!r}")
    for word in options.srun:
        if not word.startswith("-") or not word.isprintable():
            raise UserError(f"{WHERE}.srun: expected options such as '--network=sn_all', found {word!r}")
    return options


END_SECONDS = 60
"""SIGTERM comes so long before the time limit: the run ends in order, with its records."""

_NODE_LIST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-\[\],]*")


def batch_script(submission: Submission, options: SlurmOptions) -> str:
    """The script as text: `sbatch FILE` takes it as it is."""
    by_hand = f"mkdir -p {shlex.quote(str(job_folder(submission)))} && sbatch FILE"
    lines = ["#!/bin/sh", f"# Written by llmperf. By hand: {by_hand}"]
    lines += [f"#SBATCH {line}" for line in _directives(submission, options)]
    lines += options.lines
    lines += ["", *options.setup] if options.setup else [""]
    beside = Path(sys.executable).with_name("llmperf")
    llmperf = [str(beside)] if beside.exists() else [sys.executable, "-m", "llmperf"]
    command = f"exec {shlex.join([*llmperf, *submission.command])}"
    if submission.tasks > 1:
        command += f' --part "$SLURM_ARRAY_TASK_ID"/{submission.tasks}'
    return "\n".join([*lines, command, ""])


def job_folder(submission: Submission) -> Path:
    """The folder of batch scripts and of what jobs print, among the run folders."""
    return Path(submission.out) / "jobs"


def output_files(submission: Submission) -> tuple[str, str]:
    """Patterns of the files for standard output and standard error, with sbatch's `%` for numbers of the job."""
    job = "%A_%a" if submission.tasks > 1 else "%j"
    folder = str(job_folder(submission)).replace("%", "%%")
    return f"{folder}/slurm-{job}.out", f"{folder}/slurm-{job}.err"


def _directives(submission: Submission, options: SlurmOptions) -> Iterator[str]:
    output, errors = output_files(submission)
    yield "--job-name=llmperf"
    yield f"--nodes={submission.request.nodes}"
    yield "--ntasks-per-node=1"
    for name in VALUES:
        if (value := getattr(options, name)) is not None:
            yield f"--{name}={value}"
    if options.exclusive:
        yield "--exclusive"
        if options.mem is None:
            yield "--mem=0"
    for host in submission.request.hosts:
        if not _NODE_LIST.fullmatch(host):
            raise UserError(f"--hosts: expected names of Slurm's nodes, found {host!r}")
    if submission.request.hosts:
        yield f"--nodelist={','.join(submission.request.hosts)}"
    if submission.tasks > 1:
        yield f"--array=1-{submission.tasks}"
    yield f"--chdir={_path(str(Path.cwd()))}"
    yield f"--output={_path(output)}"
    yield f"--error={_path(errors)}"
    yield "--open-mode=append"
    yield f"--signal=B:TERM@{END_SECONDS}"
    yield "--requeue" if options.requeue else "--no-requeue"
    if not options.requeue:
        yield "--no-kill"  # llmperf notices the loss of a node, and writes which one


def _path(path: str) -> str:
    if '"' in path or "\\" in path or not path.isprintable():
        raise UserError(f"{path!r}: expected a folder without quotes, backslashes and control characters for Slurm")
    return f'"{path}"' if " " in path or "#" in path else path


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
