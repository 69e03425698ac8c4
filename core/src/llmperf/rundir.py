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


def records_path(run: Path, rank: int) -> Path:
    """The records of one rank."""
    return run / RECORDS / f"rank-{rank:05d}.jsonl"


def log_path(run: Path, rank: int) -> Path:
    """Standard output and error of one rank."""
    return run / LOGS / f"rank-{rank:05d}.log"


def agent_log_path(run: Path, node_rank: int) -> Path:
    """Standard output and error of one node's agent."""
    return run / LOGS / f"agent-{node_rank:03d}.log"


def record_files(run: Path) -> list[Path]:
    """All rank record files there are, in rank order."""
    return sorted((run / RECORDS).glob("rank-*.jsonl"))
