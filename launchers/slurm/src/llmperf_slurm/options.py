"""The table `[launchers.slurm]` of `llmperf.toml`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import llmperf
from llmperf.errors import UserError

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
