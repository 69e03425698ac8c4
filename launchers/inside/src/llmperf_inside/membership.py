"""The place of this process in the job of an engine, by its variables, and the options of the launcher."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llmperf import read_options, read_toml
from llmperf.errors import UserError
from llmperf.types import NodeRequest

from llmperf_inside.secret import NAME

FIRST_PORT, PORTS = 20_000, 10_000
"""Where ports lie that are derived from the job, if there is no `MASTER_PORT`."""
TRIED_PORTS = 4

OF_THE_ENGINE = re.compile(
    r"(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)|NODE_RANK|NNODES|ROLE_NAME|MASTER_(ADDR|PORT)|TORCHELASTIC_\w+|PET_\w+"
    r"|OMPI_\w+|PMIX_\w+|PMI\d?_\w+|PRTE_\w+|MPI_LOCAL\w+|HYDRA_\w+|HYDI_\w+|GMPI_\w+|I_MPI_\w+INFO\w*"
    r"|SLURM_(PROCID|LOCALID|NODEID|NTASKS|NPROCS|GTIDS|TASK_PID|STEP\w*|TASKS_PER_NODE|NTASKS_PER_NODE)"
)
"""Variables that describe a process of the engine. The ranks are others, and libraries would take them for theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """One of the processes that an engine has started."""

    engine: str
    """Its name in messages."""
    rank: int
    """Among all processes."""
    size: int
    """Number of processes."""
    local_rank: int
    """Among the processes of this node."""
    local_size: int
    """Number of processes of this node; each node must have as many."""
    node: int | None = None
    """Number of this node, if the engine says it; otherwise nodes have the order of their first ranks."""
    nodes_said: int | None = None
    """Number of nodes, if the engine says it."""
    address: str | None = None
    """Name or address of the node of rank 0."""
    port: int | None = None
    """A port of the job at that address."""
    job: str = ""
    """Name that distinguishes this job from others on the same machines."""

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.size // self.local_size

    @property
    def key(self) -> str:
        """Short name of the job, alike in all its processes."""
        return hashlib.sha256(f"{self.engine}|{self.job}".encode()).hexdigest()[:16]

    @property
    def ports(self) -> tuple[int, ...]:
        """Ports at which node 0 may listen, in order; UserError if there are none after `MASTER_PORT`."""
        if self.port is None:
            first = FIRST_PORT + int(self.key, 16) % PORTS
            return tuple(range(first, first + TRIED_PORTS))
        if self.port > 65534:
            raise UserError(f"MASTER_PORT: expected at most 65534, since the next port is used, found {self.port}")
        return tuple(range(self.port + 1, min(self.port + 1 + TRIED_PORTS, 65536)))

    def check(self) -> None:
        """UserError if the numbers contradict each other."""
        where = f"variables of {self.engine}"
        if not 0 <= self.rank < self.size:
            raise UserError(f"{where}: expected a rank from 0 to {self.size - 1}, found {self.rank}")
        if not 0 <= self.local_rank < self.local_size:
            raise UserError(f"{where}: expected a local rank from 0 to {self.local_size - 1}, found {self.local_rank}")
        if self.local_rank > self.rank:
            raise UserError(f"{where}: the local rank is {self.local_rank}, but the rank is {self.rank}")
        if self.size % self.local_size or (self.nodes_said is not None and self.nodes_said != self.nodes):
            nodes = "" if self.nodes_said is None else f" on {self.nodes_said} nodes"
            raise UserError(
                f"{where}: expected equally many processes on each node, found {self.size} processes{nodes},"
                f" {self.local_size} of them on this one; start one process on each node"
            )
        if self.node is not None and not 0 <= self.node < self.nodes:
            raise UserError(f"{where}: expected a node number from 0 to {self.nodes - 1}, found {self.node}")


def membership(env: Mapping[str, str]) -> Membership:
    """The place of this process; UserError if no engine has started it, or its variables contradict each other."""
    engines = read_toml(Path(__file__).with_name("engines.toml"))["engine"]
    for engine in engines:
        if all(mark in env for mark in engine["marks"]):
            member = _member(Variables(engine["name"], env), engine)
            if "MASTER_ADDR" in env and member.address is None:
                member = replace(member, address=env["MASTER_ADDR"] or None)
            if "MASTER_PORT" in env and member.port is None:
                member = replace(member, port=Variables(engine["name"], env).number("MASTER_PORT"))
            member.check()
            return member
    known = ", ".join(f"{' and '.join(engine['marks'])} ({engine['name']})" for engine in engines)
    raise UserError(f"launcher 'inside': no engine has started this process: expected one of {known}")


class Variables:
    """The variables of one engine."""

    def __init__(self, engine: str, env: Mapping[str, str]) -> None:
        self.engine = engine
        self._env = env

    def number(self, *names: str) -> int:
        """The first that is set; UserError if none is, or it is no number."""
        value = self.optional(*names)
        if value is None:
            raise UserError(f"variables of {self.engine}: expected {' or '.join(names)} to be set")
        return value

    def optional(self, *names: str) -> int | None:
        """The first that is set; None if none is."""
        for name in names:
            if text := self._env.get(name, ""):
                if not re.fullmatch(r"\d{1,9}", text):
                    raise UserError(f"{name}: expected a number, found {text!r:.80}")
                return int(text)
        return None

    def text(self, *names: str) -> str | None:
        """The first that is set; None if none is."""
        return next((self._env[name] for name in names if self._env.get(name)), None)

    def joined(self, *names: str) -> str:
        """All of them in one text."""
        return "|".join(self._env.get(name, "") for name in names)


def _member(env: Variables, engine: Mapping[str, Any]) -> Membership:
    """The fields in the variables of an engine; without a local rank there is one process on each node."""
    fields: dict[str, Any] = {"local_rank": 0, "local_size": 1}
    if env.engine in READ_OTHERWISE:
        fields |= READ_OTHERWISE[env.engine](env)
    fields |= {key: env.number(*engine[key]) for key in ("rank", "size", "local_rank", "local_size") if key in engine}
    fields |= {key: env.optional(*engine[key]) for key in ("node", "nodes_said", "port") if key in engine}
    if "address" in engine:
        fields["address"] = env.text(*engine["address"])
    return Membership(engine=env.engine, job=env.joined(*engine["job"]), **fields)


def _slurm(env: Variables) -> dict[str, Any]:
    """Numbers of tasks and nodes of the step, of which each node has as many."""
    if env.text("SLURM_STEP_ID", "SLURM_STEPID") is None:
        raise UserError("launcher 'inside': this is the batch script of a Slurm job; start it with srun")
    nodes = env.optional("SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES")
    size = env.number("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
    tasks = env.text("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE") or str(size // (nodes or 1) or 1)
    counts = re.findall(r"(\d+)(?:\(x\d+\))?(?:,|$)", tasks)
    if len(set(counts)) != 1 or len(counts[0]) > 9:
        raise UserError(
            f"variables of {env.engine}: expected equally many processes on each node, found"
            f" SLURM_TASKS_PER_NODE={tasks:.80}; start one process on each node"
        )
    address = env.text("MASTER_ADDR") or first_host(env.text("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST") or "")
    return {"size": size, "local_size": int(counts[0]), "nodes_said": nodes, "address": address}


def _skypilot(env: Variables) -> dict[str, Any]:
    """The number of nodes, and the address of the first one, from the list of addresses."""
    addresses = (env.text("SKYPILOT_NODE_IPS") or "").split()
    size = env.optional("SKYPILOT_NUM_NODES") or len(addresses)
    if addresses and len(addresses) != size:
        raise UserError(f"SKYPILOT_NODE_IPS: expected {size} addresses (SKYPILOT_NUM_NODES), found {len(addresses)}")
    return {"size": size, "address": addresses[0] if addresses else None}


def first_host(nodelist: str) -> str | None:
    """The first host of a Slurm node list such as `gpu[003-005,7]-ib,login`; None for an empty list."""
    match = re.match(r"([^,\[\]]*)(?:\[(\d+)[^\]]*\]([^,\[\]]*))?", nodelist)
    return "".join(part or "" for part in match.groups()) or None if match else None


READ_OTHERWISE: Mapping[str, Callable[[Variables], dict[str, Any]]] = {"Slurm": _slurm, "SkyPilot": _skypilot}


THREADS = "OMP_NUM_THREADS"


def user_environment(env: Mapping[str, str], member: Membership) -> dict[str, str]:
    """The variables without the engine's, such as torchrun's OMP_NUM_THREADS, and without the secret."""
    kept = {name: value for name, value in env.items() if not OF_THE_ENGINE.fullmatch(name) and name != NAME}
    if (
        member.engine == "torchrun"
        and member.local_size > 1
        and "TORCHELASTIC_RUN_ID" in env
        and env.get(THREADS) == "1"
    ):
        del kept[THREADS]
    return kept


WHERE = "[launchers.inside]"
MAX_PORT = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class InsideOptions:
    """Options of the user, equal on all nodes."""

    address: str | None = None
    """Name or address at which the other nodes reach node 0; by default `MASTER_ADDR`, or the engine's first node."""
    port: int | None = None
    """Port at which node 0 listens; by default one of the four after `MASTER_PORT`."""
    timeout_seconds: float = 120
    """Time for all processes to come."""


def options_of(request: NodeRequest) -> InsideOptions:
    """The options of a request; UserError for one that cannot be followed."""
    options = read_options(request.options, InsideOptions, WHERE)
    if request.hosts:
        hosts = ", ".join(request.hosts)
        raise UserError(f"--hosts {hosts}: launcher 'inside' takes the nodes on which the engine has started it")
    if options.port is not None and not 0 < options.port <= MAX_PORT:
        raise UserError(f"{WHERE}: port: expected 1 to {MAX_PORT}, found {options.port}")
    if options.timeout_seconds <= 0:
        raise UserError(f"{WHERE}: timeout_seconds: expected more than 0, found {options.timeout_seconds:g}")
    return options
