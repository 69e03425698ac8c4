"""The launcher for this machine, and the commands that a launcher brings to the nodes of a plan."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

from llmperf.errors import UserError
from llmperf.measuring.processes import TAG
from llmperf.runfolder.create import fill
from llmperf.types.launching import Node, NodeCommand, NodeRequest
from llmperf.types.plan import Plan


class LocalLauncher:
    """Runs the agent of the only node on this machine."""

    name = "local"

    def nodes(self, request: NodeRequest) -> Sequence[Node]:
        """This machine."""
        if request.hosts:
            hosts = ", ".join(request.hosts)
            raise UserError(f"--hosts {hosts}: launcher 'local' reaches this machine only; choose one with --launcher")
        return (Node(host="localhost", address="127.0.0.1"),)

    def commands(self, nodes: Sequence[NodeCommand]) -> Sequence[NodeCommand]:
        """The given command, unchanged; UserError for more than one node."""
        if len(nodes) != 1:
            raise UserError(
                f"launcher 'local': runs 1 node, not {len(nodes)}; choose a launcher that reaches the others"
            )
        return nodes


def node_commands(run: Path, plan: Plan, tag: str, port: int) -> Sequence[NodeCommand]:
    """The agent of each node as the framework planned it, with its placeholders filled in."""
    values = {"run_dir": run, "master_addr": plan.nodes[0].address, "master_port": port}
    return [
        NodeCommand(
            node_rank=rank,
            host=node.host,
            argv=tuple(fill(word, {**values, "node_rank": rank}) for word in plan.worker.agent),
            env={**plan.env, **node.env, TAG: tag},
        )
        for rank, node in enumerate(plan.nodes[: plan.layout.nodes])
    ]


def free_port() -> int:
    """A port of this host on which no process listens now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
