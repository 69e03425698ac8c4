"""The launcher `ray`: nodes of a placement group, and one bridge process that runs a command in an actor of each."""

from __future__ import annotations

import json
import re
import secrets
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from llmperf import read_options
from llmperf.errors import UserError
from llmperf.launching import python_module
from llmperf.types import Node, NodeCommand, NodeRequest

WHERE = "[launchers.ray]"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeEnv:
    """The parts of a Ray runtime environment that reach the ranks."""

    env_vars: Mapping[str, str] = field(default_factory=dict)
    """Variables of the processes on every node."""
    conda: str | None = None
    """Name of a conda environment on the nodes."""
    image_uri: str | None = None
    """Container image in which Ray runs the processes; `--container-image` is stronger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RayOptions:
    """Options of the user."""

    address: str = "auto"
    """`auto` for the cluster of this machine or of `RAY_ADDRESS`, otherwise `HOST:PORT` of its head."""
    namespace: str = "llmperf"
    """Ray namespace of the placement group."""
    cpus: float = 1
    """CPUs of Ray to take on each node."""
    gpus: float | None = None
    """GPUs of Ray to take on each node; by default as many as `--devices`, or all of a node, if the cluster has any."""
    resources: Mapping[str, float] = field(default_factory=dict)
    """Custom resources of Ray to take on each node, such as `NPU`."""
    strategy: Literal["STRICT_SPREAD", "SPREAD", "PACK", "STRICT_PACK"] = "STRICT_SPREAD"
    """How Ray places the nodes of a run; only STRICT_SPREAD keeps two of them off one machine."""
    timeout_seconds: float = 60
    """Time to wait until the nodes are free."""
    runtime_env: RuntimeEnv = RuntimeEnv()
    """Environment of the processes on the nodes."""

    def bundle(self, gpus: float) -> dict[str, float]:
        """Resources that one node takes from Ray."""
        amounts = {"CPU": self.cpus, "GPU": gpus, **self.resources}
        return {name: amount for name, amount in amounts.items() if amount}

    def environment(self, image: str | None) -> dict[str, Any]:
        """The runtime environment as Ray takes it."""
        values = {
            "env_vars": dict(self.runtime_env.env_vars),
            "conda": self.runtime_env.conda,
            "image_uri": image or self.runtime_env.image_uri,
        }
        return {name: value for name, value in values.items() if value}


def options_of(request: NodeRequest) -> RayOptions:
    """The options of a request; UserError for one that Ray cannot follow."""
    options = read_options(request.options, RayOptions, WHERE)
    if request.hosts:
        hosts = ", ".join(request.hosts)
        raise UserError(f"--hosts {hosts}: launcher 'ray' takes the nodes that Ray places; ask for a number of nodes")
    if "://" in options.address:
        raise UserError(
            f"{WHERE}: address: expected 'auto' or HOST:PORT, found {options.address!r}; run llmperf on a node of the"
            " cluster, for example with `ray job submit`"
        )
    if options.address != "auto" and not re.fullmatch(r"[^\s:]+:\d{1,5}|\[[\da-fA-F:]+\]:\d{1,5}", options.address):
        raise UserError(f"{WHERE}: address: expected 'auto' or HOST:PORT, found {options.address!r}")
    amounts = {"cpus": options.cpus, "gpus": options.gpus, **options.resources}
    for name, amount in amounts.items():
        if amount is not None and amount < 0:
            raise UserError(f"{WHERE}: {name}: expected 0 or more, found {amount:g}")
    if not options.bundle(options.gpus or 0) and options.gpus == 0:
        raise UserError(f"{WHERE}: expected at least one resource to take on each node, found cpus = 0 and gpus = 0")
    if options.timeout_seconds <= 0:
        raise UserError(f"{WHERE}: timeout_seconds: expected more than 0, found {options.timeout_seconds:g}")
    return options


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
                node_rank=first.node_rank,
                host=first.host,
                argv=python_module("llmperf_ray.bridge"),
                env={COMMANDS: text},
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
            python_module("llmperf_ray.reservation"),
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
