"""Calls of Slurm's own commands, what they print, and what their messages mean."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from llmperf import read_toml
from llmperf.errors import UserError

SECONDS = 60.0
"""Limit for one call. Slurm's commands wait 10 s for an answer of slurmctld, and try again."""

MAX_NODES = 100_000

_FIELD = re.compile(r"(?:^| )([A-Za-z][A-Za-z0-9/:_]*)=")
_ALLOCATED = re.compile(r" Nodes=(\S+) CPU_IDs=\S+ Mem=\S+ GRES=(\S*)")
_GPUS = re.compile(r"(?:^|,)gpu(?::[^:,()]+)?:(\d+)(?![^(,])")
"""In `gpu:h800:8(IDX:0-7),nic:2`."""


class SlurmError(Exception):
    """Standard error of a Slurm command, in one line."""


def require(program: str) -> str:
    """The path of one of Slurm's commands; UserError if it is not on PATH."""
    path = shutil.which(program)
    if path is None:
        raise UserError(f"launcher 'slurm': {program} is not on PATH; expected Slurm's commands on this machine")
    return path


def call(*argv: str) -> str:
    """Standard output of a command; SlurmError if it fails, UserError if it is not installed."""
    try:
        ended = subprocess.run(
            [require(argv[0]), *argv[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise SlurmError(f"{argv[0]}: no answer in {SECONDS:g} s") from None
    if ended.returncode:
        lines = [line.strip() for line in ended.stderr.splitlines() if line.strip()]
        raise SlurmError("; ".join(lines)[:500] or f"{argv[0]}: exit code {ended.returncode}")
    return ended.stdout


def hostnames(expression: str) -> tuple[str, ...]:
    """The names in a list of nodes such as `gpu[1-4,7]`, in Slurm's order; UserError if it is none."""
    try:
        names = tuple(call("scontrol", "show", "hostnames", expression).split())
    except SlurmError as error:
        raise UserError(f"launcher 'slurm': cannot read the list of nodes {expression!r}: {error}") from None
    if not 0 < len(names) <= MAX_NODES:
        raise UserError(f"launcher 'slurm': expected 1 to {MAX_NODES} nodes in {expression!r}, found {len(names)}")
    return names


def addresses(names: Sequence[str]) -> dict[str, str]:
    """`NodeAddr` of nodes: the address under which Slurm reaches them; their names if slurmctld does not answer."""
    try:
        listed = call("scontrol", "show", "node", ",".join(names), "--oneliner")
    except SlurmError:
        return {}
    nodes = [fields(line) for line in listed.splitlines()]
    return {node["NodeName"]: node["NodeAddr"] for node in nodes if "NodeName" in node and node.get("NodeAddr")}


def gpus_of_nodes(job: str) -> dict[str, int]:
    """How many GPUs a job has on each of its nodes, as `scontrol show job --details` lists them."""
    try:
        listed = call("scontrol", "show", "job", job, "--details", "--oneliner")
    except SlurmError:
        return {}
    counts: dict[str, int] = {}
    for nodes, resources in _ALLOCATED.findall(listed):
        for host in hostnames(nodes):
            counts[host] = sum(int(number) for number in _GPUS.findall(resources))
    return counts


def fields(line: str) -> dict[str, str]:
    """The fields of a line of `scontrol show ... --oneliner`, whose values may contain spaces."""
    places = list(_FIELD.finditer(line))
    ends = [place.start() for place in places[1:]] + [len(line)]
    values: dict[str, str] = {}
    for place, end in zip(places, ends, strict=True):
        values.setdefault(place[1], line[place.end() : end].strip())  # a value that looks like fields comes later
    return values


def has_container_images() -> bool:
    """Check whether srun has pyxis' option `--container-image`."""
    try:
        return "--container-image" in call("srun", "--help")
    except SlurmError:
        return False


_SLURM = re.compile(r"(?:srun|slurmstepd[^:]*): (?:fatal: |error: )?(.*)")


def explanation(errors: str) -> str | None:
    """Reason why a step ended, in one line; None if Slurm gave none."""
    messages = [match[1].strip("* ") for line in errors.splitlines() if (match := _SLURM.search(line))]
    for pattern, meaning in read_toml(Path(__file__).with_name("reasons.toml")).items():
        for message in messages:
            if re.search(pattern, message, re.IGNORECASE):
                return f"{meaning} ({message[:200]})"
    return messages[-1][:300] if messages else None
