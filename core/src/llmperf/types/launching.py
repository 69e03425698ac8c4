"""Launchers: which nodes they offer, and the commands that they bring to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from llmperf.types.frozen import dataclass
from llmperf.types.units import Count, Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRequest:
    """Request to a launcher while a run is planned."""

    nodes: Positive
    """Nodes that the run needs: as the user asks, otherwise as the case says."""
    devices: Positive | None
    """Devices on each node, if the user asks for a number."""
    hosts: tuple[str, ...]
    """Hosts that the user named with `--hosts`; empty if none."""
    options: Mapping[str, Any]
    """The table `[launchers.NAME]` of the user's `llmperf.toml`; the launcher checks it and raises UserError."""
    image: str | None = None
    """The container image of `--container-image`, for launchers with `starts_containers`; None for others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A whole `llmperf run` command, before anything is planned."""

    command: tuple[str, ...]
    """The words after `llmperf`, as the user typed them."""
    request: NodeRequest
    """The nodes that it needs."""
    out: str
    """Absolute path of the folder for run folders."""
    tasks: Positive = 1
    """Parts that can run independently of each other, such as parts of a matrix: `--part I/N`, I from 1 to N."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node that a launcher reaches."""

    host: str
    """Name or address, as the launcher takes it."""
    address: str
    """Name or address under which the ranks of other nodes reach this one: the first node's is the master address."""
    interface: str | None = None
    """Network interface over which its ranks reach those of other nodes; None if it is unknown or there are none."""
    devices: Positive | None = None
    """Devices that the engine lets a run use there, such as slots of a host file: the run uses the fewest of all nodes
    unless the user asks for a number. None if the engine does not say."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables of the agent and the ranks on this node, such as the interface of a collective library."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCommand:
    """A command for one node: argv and environment variables."""

    node_rank: Count
    """Rank of the node, from 0."""
    host: str
    """`Node.host`."""
    argv: tuple[str, ...]
    """The command as a list of words, without a shell."""
    env: Mapping[str, str]
    """Environment variables: those of the node and `LLMPERF_NODE_RANK`."""


NODE_RANK = "LLMPERF_NODE_RANK"
"""The variable by which a command knows its node. The commands of alike nodes differ in nothing else, so that an engine
which starts one command on all nodes may set it from its own number of the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """The Python that runs the ranks, if it is another than llmperf's own."""

    path: str
    """Absolute path of the executable, as on every node or in the container image, or a name on the image's `PATH`."""
    version: str
    """Version, such as `3.12.3`."""
    environment: str | None = None
    """Its name in `[environments]` of the user's `llmperf.toml`; None if the path was given."""

    @property
    def knows_safe_path(self) -> bool:
        """The interpreter has the option `-P`, which keeps the current folder off the import path: from 3.11 on."""
        major, _, minor = self.version.partition(".")
        return (int(major), int(minor.partition(".")[0])) >= (3, 11)


class Launcher(Protocol):
    """Brings commands to nodes and connects their standard input and output with this machine.

    A launcher needs nothing else: plans reach the nodes through standard input, and records come back through standard
    output, so that nothing has to listen and no file system has to be shared.

    It is asked for its nodes once, while a run is planned, and then for commands several times: to report what each
    node has, to screen the nodes, and to run. A launcher may also have this attribute, and these methods:

    `starts_containers = True`
        It starts `NodeRequest.image` itself, or refuses it. For other launchers, llmperf-remote turns the commands
        into commands of the engine in `[containers]` of `llmperf.toml`.

    `hand_over(submission: Submission, say: Callable[[str], None]) -> int | None`
        Called by `llmperf run` before anything is planned. The launcher may have the command run elsewhere, such as in
        a batch job that it submits and follows, or serve as one node of a run that another process controls; it then
        returns the exit code. None if the command is to be run by this process. `say` prints a line on standard error;
        standard output is for what the command prints elsewhere.
    `preview(submission: Submission) -> str | None`
        What `hand_over` would submit or `nodes` would ask the engine for, such as a batch script or a manifest, as text
        that the engine's own tools take. `llmperf run --dry-run` prints it. None if there is none.
    `explain(host: str, exit_code: int, errors: str) -> str | None`
        Called when a process that brings commands to `host` has ended before they did, with the end of its standard
        error. Why, and what to do about it, in one line, such as a key that the host refuses. None if the launcher has
        nothing to add.
    `close() -> None`
        Gives back what `nodes` has taken from the engine. Called once, after the last command has ended.
    """

    @property
    def name(self) -> str:
        """The name in `--launcher` and in plans."""

    def nodes(self, request: NodeRequest) -> Sequence[Node]:
        """Up to `request.nodes` nodes in the order of their ranks; fewer if it reaches fewer.

        UserError for a host it does not know or options it cannot read.
        """

    def commands(self, nodes: Sequence[NodeCommand]) -> Sequence[NodeCommand]:
        """Processes to start on this machine so that each given command runs on its node, such as `ssh HOST ...`.

        One process may run the commands of several nodes. Each line that is written to a process's standard input must
        reach all its commands, at once and unchanged; each line that a command prints on its standard output must come
        out of the process's, at once, whole and unchanged, in any order between nodes. Lines are shorter than 1 MiB.
        Standard error is logged. A process ends when its commands have ended, with 0 only if all ended with 0. A
        command ends by itself when its standard input ends, or when it gets no line for 20 s: a launcher need not end
        it.
        """
