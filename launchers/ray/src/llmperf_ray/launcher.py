"""The launcher `ray`: nodes of a placement group, and one bridge process that runs a command in an actor of each."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from llmperf.errors import UserError
from llmperf.types import Node, NodeCommand, NodeRequest

from llmperf_ray.options import WHERE, options_of

COMMANDS = "LLMPERF_RAY_COMMANDS"
"""The variable through which the bridge gets its commands: unlike its arguments, other users cannot read it."""
MAX_COMMANDS_BYTES = 120_000
"""Linux allows 128 KiB for one variable."""
CLOSE_SECONDS = 20.0


class RayLauncher:
    """Reserves a placement group with one bundle for each node.

    Only child processes import Ray. The one that made the placement group stays until `close`; when it or this process
    dies, Ray removes the group and everything in it.
    """

    name = "ray"
    starts_containers = True

    def __init__(self) -> None:
        self._reservation: subprocess.Popen[str] | None = None
        self._group: Mapping[str, Any] = {}

    def nodes(self, request: NodeRequest) -> Sequence[Node]:
        """The nodes that Ray has reserved; UserError if it cannot reserve as many as requested."""
        options = options_of(request)
        self.close()
        self._group = {
            "address": options.address,
            "namespace": options.namespace,
            "group": f"llmperf-{secrets.token_hex(8)}",
            "runtime_env": options.environment(request.image),
        }
        wanted = {
            **self._group,
            "nodes": request.nodes,
            "devices": request.devices,
            "bundle": options.bundle(options.gpus or 0),
            "chooses_gpus": options.gpus is None,
            "strategy": options.strategy,
            "timeout_seconds": options.timeout_seconds,
        }
        answer = self._reserve(wanted)
        if "problem" in answer:
            self.close()
            raise UserError(f"{WHERE}: {answer['problem']}")
        self._group = {**self._group, "bundle": answer["bundle"]}
        return [Node(host=address, address=address) for address in answer["addresses"]]

    def commands(self, nodes: Sequence[NodeCommand]) -> Sequence[NodeCommand]:
        """One process for all nodes."""
        commands: list[dict[str, Any]] = [
            {"node_rank": node.node_rank, "argv": node.argv, "env": dict(node.env), "host": node.host} for node in nodes
        ]
        # what all commands have in common is written once
        common = commands[0]["env"].items()
        for command in commands:
            common = [item for item in common if item in command["env"].items()]
        env = dict(common)
        argv = commands[0]["argv"]
        for command in commands:
            command["env"] = {name: value for name, value in command["env"].items() if name not in env}
            if command["argv"] == argv:
                del command["argv"]
        text = json.dumps({**self._group, "argv": argv, "env": env, "commands": commands})
        if len(text) > MAX_COMMANDS_BYTES:
            raise UserError(
                f"launcher 'ray': the commands of {len(nodes)} nodes need {len(text)} bytes, which is too much"
            )
        first = nodes[0]
        return [
            NodeCommand(
                node_rank=first.node_rank, host=first.host, argv=_python("llmperf_ray.bridge"), env={COMMANDS: text}
            )
        ]

    def close(self) -> None:
        """Give the placement group back."""
        process, self._reservation = self._reservation, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def _reserve(self, wanted: Mapping[str, Any]) -> Mapping[str, Any]:
        process = self._reservation = subprocess.Popen(
            _python("llmperf_ray.reservation"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C ends the run first, and the reservation after it
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(wanted) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        except BaseException:
            self.close()
            raise
        if not line:
            self.close()
            raise UserError(f"{WHERE}: the process that reserves nodes ended with exit code {process.returncode}")
        answer: Mapping[str, Any] = json.loads(line)
        return answer


def _python(module: str) -> tuple[str, ...]:
    """The argv that runs a module with this Python, off the current folder where that is possible."""
    return (sys.executable, *(("-P",) if sys.version_info >= (3, 11) else ()), "-m", module)
