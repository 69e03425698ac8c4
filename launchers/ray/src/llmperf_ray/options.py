"""The table `[launchers.ray]` of `llmperf.toml`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from llmperf import read_options
from llmperf.errors import UserError
from llmperf.types import NodeRequest

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
