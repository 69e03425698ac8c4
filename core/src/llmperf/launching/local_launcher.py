"""The command of a node's agent."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

from llmperf.runfolder.create import fill
from llmperf.types.plan import Plan


def of_node(variables: Mapping[str, str], plan: Plan, node_rank: int) -> dict[str, str]:
    """Variables with `{interface}` and `{address}` filled in for one node, without those whose interface is unknown."""
    node = plan.nodes[node_rank] if node_rank < len(plan.nodes) else None
    known = {"interface": node.interface, "address": node.address} if node and node.interface else {}
    return {name: fill(value, known) for name, value in variables.items() if known or "{interface}" not in value}


def agent_command(run: Path, plan: Plan, node_rank: int, master_address: str, master_port: int) -> tuple[str, ...]:
    """The agent of a node as the framework planned it, with its placeholders filled in."""
    values = {"run_dir": run, "master_addr": master_address, "master_port": master_port, "node_rank": node_rank}
    return tuple(fill(word, values) for word in plan.worker.agent)


def free_port() -> int:
    """A port of this host on which no process listens now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
