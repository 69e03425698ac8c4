"""The names of the files in a run folder, which are the protocol between controller and workers."""

from __future__ import annotations

from pathlib import Path

PLAN = "plan.json"
RESULT = "result.json"
REPORT = "report.md"
MEMORY = "memory.jsonl"
RECORDS = "records"
LOGS = "logs"
TRACES = "traces"
FILES = "files"
"""Configuration files of the framework plugin."""
ENDING = "ending.json"
"""Ending of the run, as the controller saw it, with the exit codes."""
MACHINE = "machine.json"
"""The host of a run on this machine."""
NODES = "nodes.json"
"""The nodes of a run through a launcher, as the controller reached them."""
SOURCES = (PLAN, MEMORY, ENDING, MACHINE, NODES)
"""Files from which a result is computed, besides those in `RECORDS`."""
VERIFICATION = "verification.json"
"""File with the levels of verification beyond the rules."""
MATRIX = "matrix.json"
"""Contents of a matrix, in its folder."""
UNFINISHED = "unfinished"
"""Folder in that of a matrix for runs that were cut off, which do not count."""
RANK_RESERVE = ".reserve-ranks"
"""Reserved space: a rank on a full disk can still record its failure."""
RESULT_RESERVE = ".reserve-result"
"""Space reserved for the result."""


def records_path(run: Path, rank: int) -> Path:
    """The records of one rank."""
    return run / RECORDS / f"rank-{rank:05d}.jsonl"


def log_path(run: Path, rank: int) -> Path:
    """Standard output and error of one rank."""
    return run / LOGS / f"rank-{rank:05d}.log"


def agent_report_path(run: Path, node_rank: int) -> Path:
    """Process ids and exit codes of the ranks of one node, written by llmperf's agent."""
    return run / RECORDS / f"agent-{node_rank:03d}.json"


def agent_log_path(run: Path, node_rank: int) -> Path:
    """Standard output and error of one node's agent."""
    return run / LOGS / f"agent-{node_rank:03d}.log"


def node_log_path(run: Path, node_rank: int) -> Path:
    """Standard error of the process that connects the controller with a node, and of the node program there."""
    return run / LOGS / f"node-{node_rank:03d}.log"


def host_path(run: Path, node_rank: int) -> Path:
    """The host of one node of a run through a launcher, written by the node."""
    return run / RECORDS / f"host-{node_rank:03d}.json"


def memory_path(run: Path, node_rank: int) -> Path:
    """The readings of the devices of one node of a run through a launcher, written by the node."""
    return run / RECORDS / f"memory-{node_rank:03d}.jsonl"


def record_files(run: Path) -> list[Path]:
    """All record files of ranks, in rank order."""
    return sorted((run / RECORDS).glob("rank-*.jsonl"))
