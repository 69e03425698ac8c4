"""An outsider's launcher for tests: two "nodes" on this machine, each in a process group of its own."""

from dataclasses import replace

import llmperf
from llmperf.errors import UserError
from llmperf.types import Node


class PairLauncher:
    name = "pair"

    def nodes(self, request):
        if unknown := set(request.options) - {"addresses"}:
            raise UserError(f"llmperf.toml: launchers.pair: unknown key {min(unknown)!r}; expected addresses")
        hosts = request.hosts or ("left", "right")
        return [
            Node(host=host, address="127.0.0.1", env={"PAIR_NODE": host, "GLOO_SOCKET_IFNAME": "lo"}) for host in hosts
        ]

    def commands(self, nodes):
        # a host named `bare` has no plugins but those of this project
        words = {node.host: ["-u", "PYTHONPATH"] if node.host == "bare" else [] for node in nodes}
        return [replace(node, argv=("env", *words[node.host], f"REACHED={node.host}", *node.argv)) for node in nodes]


@llmperf.hookimpl
def llmperf_launchers():
    return [PairLauncher()]
