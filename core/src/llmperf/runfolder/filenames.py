"""Where things are in a run folder: the protocol between controller and workers."""

from __future__ import annotations

from pathlib import Path

PLAN = "plan.json"
RESULT = "result.json"
REPORT = "report.md"
MEMORY = "memory.jsonl"
RECORDS = "records"
LOGS = "logs"
FILES = "files"
"""Configuration files the framework plugin asked for."""
ENDING = "ending.json"
"""What the controller saw at the end: how the run was stopped and with what exit codes."""
MACHINE = "machine.json"
"""The host the controller runs on."""
RANK_RESERVE = ".reserve-ranks"
"""Space kept back so that a rank that meets a full disk can still say so."""
RESULT_RESERVE = ".reserve-result"
"""Space kept back for the result."""


def records_path(run: Path, rank: int) -> Path:
    """The records of one rank."""
    return run / RECORDS / f"rank-{rank:05d}.jsonl"


def log_path(run: Path, rank: int) -> Path:
    """Standard output and error of one rank."""
    return run / LOGS / f"rank-{rank:05d}.log"


def agent_report_path(run: Path, node_rank: int) -> Path:
    """Process ids and exit codes of one node's ranks, written by our own agent."""
    return run / RECORDS / f"agent-{node_rank:03d}.json"


def agent_log_path(run: Path, node_rank: int) -> Path:
    """Standard output and error of one node's agent."""
    return run / LOGS / f"agent-{node_rank:03d}.log"


def record_files(run: Path) -> list[Path]:
    """All rank record files there are, in rank order."""
    return sorted((run / RECORDS).glob("rank-*.jsonl"))
