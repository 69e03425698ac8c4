"""Launchers: which nodes they offer, and the commands that they bring to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from llmperf.types.units import Count, Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRequest:
    """What a run asks of a launcher while it is planned."""

    nodes: Positive
    """Nodes that the run needs: as the user asks, otherwise as the case says."""
    devices: Positive | None
    """Devices on each node, if the user asks for a number."""
    hosts: tuple[str, ...]
    """Hosts that the user named with `--hosts`; empty if none."""
    options: Mapping[str, Any]
    """The table `[launchers.NAME]` of the user's `llmperf.toml`; the launcher checks it and raises UserError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node that a launcher reaches."""

    host: str
    """Name or address, as the launcher takes it."""
    address: str
    """Name or address under which the ranks of other nodes reach this one: the first node's is the master address."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables of the agent and the ranks on this node, such as the interface of a collective library."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCommand:
    """A command for one node: argv and environment variables."""

    node_rank: Count
    """From 0."""
    host: str
    """`Node.host`."""
    argv: tuple[str, ...]
    """The command as a list of words, without a shell."""
    env: Mapping[str, str]
    """Environment variables, added to those of the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """The Python that runs the ranks, if it is another than llmperf's own."""

    path: str
    """Absolute path of the executable, as on every node."""
    version: str
    """Such as `3.12.3`."""
    environment: str | None = None
    """Its name in `[environments]` of the user's `llmperf.toml`; None if the path was given."""

    @property
    def knows_safe_path(self) -> bool:
        """Whether it has the option `-P`, which keeps the current folder off the import path: from 3.11 on."""
        major, _, minor = self.version.partition(".")
        return (int(major), int(minor.partition(".")[0])) >= (3, 11)


class Launcher(Protocol):
    """Brings commands to nodes; it starts nothing itself.

    A launcher is asked three times: for its nodes while a run is planned; for the commands that report what each node
    has, whose standard output must come back on this machine; and for the commands that start the agents.
    """

    @property
    def name(self) -> str:
        """The name in `--launcher` and in plans."""
        ...

    def nodes(self, request: NodeRequest) -> Sequence[Node]:
        """Up to `request.nodes` nodes in the order of their ranks; fewer if it reaches fewer.

        UserError for a host it does not know or options it cannot read.
        """
        ...

    def commands(self, nodes: Sequence[NodeCommand]) -> Sequence[NodeCommand]:
        """Processes to start on this machine so that each given command runs on its node, such as `ssh HOST ...`.

        A process ends when its command ends, with its exit code, and ends its command when it gets SIGTERM. One process
        may run the commands of several nodes.
        """
        ...
