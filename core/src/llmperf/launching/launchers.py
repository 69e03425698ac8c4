"""Launchers: the one for this machine, the search for one by name, and the commands that a launcher brings to nodes."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

from llmperf.errors import PluginError, UserError, unknown
from llmperf.measuring.processes import TAG
from llmperf.plugins.discovery import Found
from llmperf.plugins.loading import Plugins
from llmperf.runfolder.create import fill
from llmperf.types.plan import Launcher, NodeCommand, Plan


class LocalLauncher:
    """Runs the agent of the only node on this machine."""

    name = "local"

    def commands(self, nodes: Sequence[NodeCommand]) -> Sequence[NodeCommand]:
        """The given command, unchanged; UserError for more than one node."""
        if len(nodes) != 1:
            raise UserError(
                f"launcher 'local': runs 1 node, not {len(nodes)}; choose a launcher that reaches the others"
            )
        return nodes


def find_launcher(plugins: Plugins, name: str) -> tuple[Found, Launcher]:
    """The launcher of that name and the plugin that provides it; UserError if there is none, or more than one."""
    providers: dict[str, list[tuple[str, Launcher]]] = {}
    for owner, launcher in plugins.collect_items("llmperf_launchers"):
        if not isinstance(getattr(launcher, "name", None), str):
            raise PluginError(f"{plugins.who(owner)}: llmperf_launchers gave {launcher!r}, which has no name")
        providers.setdefault(launcher.name, []).append((owner, launcher))
    if name not in providers:
        raise unknown("launcher", "launcher", name, providers)
    if len(providers[name]) > 1:
        owners = " and ".join(owner for owner, _ in providers[name])
        raise UserError(f"launcher {name!r} comes from {owners}; uninstall one")
    owner, launcher = providers[name][0]
    return plugins.found(owner), launcher


def node_commands(run: Path, plan: Plan, tag: str, port: int) -> Sequence[NodeCommand]:
    """The agent of each node as the framework planned it, with its placeholders filled in."""
    values = {"run_dir": run, "master_addr": "127.0.0.1", "master_port": port}
    return [
        NodeCommand(
            node_rank=node,
            host="localhost",
            argv=tuple(fill(word, {**values, "node_rank": node}) for word in plan.agent),
            env={**plan.env, TAG: tag},
        )
        for node in range(plan.layout.nodes)
    ]


def free_port() -> int:
    """A port of this host on which no process listens now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
