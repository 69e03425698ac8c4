"""Ending of a run, as its agents and its controller saw it. These are files: a result can be recomputed from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.files.text import without_secrets
from llmperf.runfolder import filenames
from llmperf.types.devices import PeakFlops
from llmperf.types.frozen import dataclass
from llmperf.types.hosts import LoadBefore
from llmperf.types.layout import Layout
from llmperf.types.records import Phase
from llmperf.types.units import Count, NonNegative, Positive

AGENT_MODULE = "llmperf.launching.agent"
"""Module in the argv of llmperf's own agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPhase:
    """A phase of a rank as the agent of its node saw it in the rank's records, a moment after the rank entered it."""

    phase: Phase
    monotonic: NonNegative
    """Seconds of the host's CLOCK_MONOTONIC, by the agent."""
    uptime: NonNegative | None
    """The same moment in seconds since the host started, from a text of the kernel, which no library changes; time in
    which the host slept counts. None if the system does not tell."""
    late: NonNegative = 0.0
    """Seconds since the agent's look before this one, the most that it may have seen the phase late; 0 if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankExit:
    """One rank process."""

    rank: Count
    pid: Count
    exit_code: int | None = None
    """None while it runs, and if a signal ended it."""
    signal: str | None = None
    """Name, such as `SIGKILL`."""
    out_of_memory: bool = False
    """The kernel killed processes for lack of memory while it ran, and it was killed by SIGKILL."""
    at: NonNegative | None = None
    """Seconds since the epoch when it ended; None while it runs."""
    stopped: bool = False
    """The agent had asked it to end."""
    unfinished_phase: Phase | None = None
    """The phase in which it ended, if it ended with status 0 before it was done."""
    phases: tuple[SeenPhase, ...] = ()
    """Its phases; empty if another agent started it."""

    @property
    def bad(self) -> bool:
        """It ended by itself, with a status other than 0 or before it was done."""
        ended = self.at is not None and not self.stopped
        return ended and (self.exit_code != 0 or self.unfinished_phase is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReport:
    """`records/agent-NNN.json`: the ranks of one node."""

    node_rank: Count
    pid: Count
    ranks: tuple[RankExit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """`ending.json`: why the controller stopped watching."""

    cause: Literal["ended", "lost", "hung", "interrupted", "controller"]
    """`ended`: the agents ended by themselves, with or without success; `lost`: a node could not be reached any more;
    `controller`: llmperf itself failed."""
    rank: Count | None = None
    """The rank that hangs, if it is known."""
    node: Count | None = None
    """The node that was lost."""
    exception: str | None = None
    message: str = ""
    at: str
    """UTC, ISO 8601."""
    agents: tuple[int | None, ...] = ()
    """Exit codes of the agents by node, negative for signals; None for an agent that had to be killed."""
    notes: tuple[str, ...] = ()
    peak_again: PeakFlops | None = None
    """The peak as it was measured after the run; None if it was not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """`machine.json`: this host; `records/host-NNN.json`: the host of a node of a run through a launcher."""

    os: str
    kernel: str
    python: str
    cpu: str | None
    memory_bytes: Positive | None
    environment: Mapping[str, str]
    """Variables the ranks see: those that plugins name or set."""
    notable_packages: tuple[str, ...] = ()
    """Import names of packages whose version affects the training speed, from the plugins."""
    driver: str | None = None
    """Version of the devices' driver on a node; None if unknown, and for this machine, whose driver is in the plan."""
    load: LoadBefore | None = None
    """Activity of others on this host just before the start; None if it was not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedNode:
    """One entry of `nodes.json`: a node as the controller reached it through a launcher."""

    node_rank: Count
    host: str
    """`Node.host`."""
    address: str
    """`Node.address`."""
    interface: str | None
    """Network interface that holds that address on the node."""
    clock_offset_seconds: float | None
    """The node's wall clock minus the controller's, from the shortest round trip; None without an answer."""
    clock_error_seconds: NonNegative | None
    """Largest error of that offset: half of the round trip."""
    lost_seconds: NonNegative | None = None
    """Silence of the connection before the controller gave the node up; None if it was never lost."""
    undelivered: str | None = None
    """Folder on the node that keeps records which did not come back; None if all did."""


def read_nodes(run: Path) -> tuple[ReachedNode, ...]:
    """The nodes of a run through a launcher; empty for a run on this machine."""
    path = run / filenames.NODES
    return json_files.load(path, tuple[ReachedNode, ...]) if path.exists() else ()


def save_nodes(run: Path, nodes: tuple[ReachedNode, ...]) -> None:
    """Write the nodes of a run through a launcher."""
    json_files.save(run / filenames.NODES, nodes)


def read_reports(run: Path) -> list[AgentReport]:
    """All readable reports of agents, by node."""
    reports = []
    for path in sorted((run / filenames.RECORDS).glob("agent-*.json")):
        try:
            reports.append(json_files.load(path, AgentReport))
        except UserError:
            continue
    return reports


def read_ending(run: Path) -> Ending | None:
    """The end of the run as the controller saw it; None if it ended before that."""
    path = run / filenames.ENDING
    return json_files.load(path, Ending) if path.exists() else None


RECORD_FOLDERS = (filenames.RECORDS, filenames.LOGS)


def files_of_node(node: int, layout: Layout) -> set[str]:
    """The names of the files that a node writes."""
    run, ranks = Path(), range(node * layout.devices_per_node, (node + 1) * layout.devices_per_node)
    paths = [
        *(function(run, rank) for rank in ranks for function in (filenames.records_path, filenames.log_path)),
        filenames.agent_report_path(run, node),
        filenames.agent_log_path(run, node),
        filenames.host_path(run, node),
        filenames.memory_path(run, node),
    ]
    return {path.as_posix() for path in paths}


def sound_report(name: str, data: bytes, node: int, layout: Layout, where: str) -> bytes:
    """A report of a node as the controller keeps it; UserError if it is none, or one on the ranks of others."""
    if "/host-" in name:
        host = json_files.decode(data, Host, where)
        return json_files.encode_pretty(replace(host, environment=without_secrets(host.environment)))
    report = json_files.decode(data, AgentReport, where)
    nodes = {report.node_rank, *(layout.node_of(rank.rank) for rank in report.ranks)}
    if nodes != {node} or len(report.ranks) > layout.devices_per_node:
        raise UserError(f"{where}: expected a report on the ranks of node {node}")
    return data
