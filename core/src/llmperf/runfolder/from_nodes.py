"""Files of a run folder that other nodes write: their names, and how the controller keeps them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.files.text import without_secrets
from llmperf.runfolder import filenames
from llmperf.runfolder.endings import AgentReport, Host
from llmperf.types.layout import Layout

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
