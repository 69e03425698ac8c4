"""The table `[launchers.inside]` of `llmperf.toml`."""

from __future__ import annotations

from dataclasses import dataclass

from llmperf import read_options
from llmperf.errors import UserError
from llmperf.types import NodeRequest

WHERE = "[launchers.inside]"
MAX_PORT = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class InsideOptions:
    """Options of the user, equal on all nodes."""

    address: str | None = None
    """Name or address at which the other nodes reach node 0; by default `MASTER_ADDR`, or the engine's first node."""
    port: int | None = None
    """Port at which node 0 listens; by default one of the four after `MASTER_PORT`."""
    timeout_seconds: float = 120
    """Time for all processes to come."""


def options_of(request: NodeRequest) -> InsideOptions:
    """The options of a request; UserError for one that cannot be followed."""
    options = read_options(request.options, InsideOptions, WHERE)
    if request.hosts:
        hosts = ", ".join(request.hosts)
        raise UserError(f"--hosts {hosts}: launcher 'inside' takes the nodes on which the engine has started it")
    if options.port is not None and not 0 < options.port <= MAX_PORT:
        raise UserError(f"{WHERE}: port: expected 1 to {MAX_PORT}, found {options.port}")
    if options.timeout_seconds <= 0:
        raise UserError(f"{WHERE}: timeout_seconds: expected more than 0, found {options.timeout_seconds:g}")
    return options
