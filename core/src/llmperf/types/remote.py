"""The door by which a run gets to other nodes: what a package gives for the nodes of any launcher."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from llmperf.types.devices import Probe
from llmperf.types.launching import Interpreter, Node, NodeRequest, Submission

if TYPE_CHECKING:
    from llmperf.types.node_tasks import NodesChecked, ReachedNodes
    from llmperf.types.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Containers:
    """`[containers]`: how `--container-image` is started by launchers that start no containers themselves."""

    engine: Literal["apptainer", "docker", "podman"] | None = None
    """The program on the nodes that starts them."""
    mounts: tuple[str, ...] = ()
    """Folders of the node, such as `/data:/data:ro`."""
    python: str = "python3"
    """The interpreter in the image: its path, or a name on the image's `PATH`. `--python` is stronger."""
    devices: tuple[str, ...] = ()
    """Devices for docker and podman: paths below /dev, or names of the Container Device Interface."""
    gpus: str | None = None
    """For docker `all`; for apptainer the name of its option for the driver's libraries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """An image, and how a launcher that starts no containers itself starts it on a node."""

    image: str
    """Image as the engine takes it."""
    table: Containers
    """The user's table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledPlugin:
    """A plugin of an environment."""

    role: str
    name: str
    distribution: str
    version: str
    problem: str | None
    """One line if its requirements are not met or a required check fails there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentReport:
    """A Python environment, here or on a node: its plugins, and the devices that they see."""

    llmperf_version: str
    """Version of llmperf-core."""
    python_version: str
    """Version, such as `3.12.3`."""
    plugins: tuple[InstalledPlugin, ...]
    """The installed vendor, framework and extension plugins."""
    probes: tuple[Probe, ...]
    """The devices that the named vendor plugin sees, or every vendor plugin if none was named."""
    left_out: tuple[str, ...]
    """One line for each vendor plugin that failed."""

    def plugin(self, role: str, name: str) -> InstalledPlugin | None:
        """The plugin of that role and name; None if it is not installed there."""
        return next((plugin for plugin in self.plugins if (plugin.role, plugin.name) == (role, name)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesReached:
    """Nodes that can be used together, as they have reported."""

    nodes: tuple[Node, ...]
    """With their network interfaces and numeric addresses."""
    reports: tuple[EnvironmentReport, ...]
    """One of each node."""
    usual: EnvironmentReport
    """The first report with the devices that most nodes have."""
    concerns: tuple[str, ...]
    """One line for each difference between them, and for what disturbs a run on one of them."""


NodesCheck: TypeAlias = "Callable[[ReachedNodes], NodesChecked]"
"""A check that a plugin makes of nodes."""
Chooser: TypeAlias = Callable[[EnvironmentReport], str]
"""Gives the vendor whose devices a run uses, by the usual report of its nodes."""


class Agents(Protocol):
    """The agents of one start of a run, one on each node, as the controller sees them."""

    def start(self, interrupted: Callable[[float], bool]) -> None:
        """Start them all; UserError if one cannot be. `interrupted` waits for seconds: True if the user ends it."""

    def codes(self) -> tuple[int | None, ...]:
        """Their exit codes by node, negative for signals; None while one runs."""

    def lost(self) -> tuple[int | None, str] | None:
        """A node that cannot be reached any more, and why, in one line; None for the node if llmperf itself failed."""

    def stacks(self) -> dict[int, str]:
        """Stacks of the running ranks, as each writes them to its log when it is asked."""

    def stop(self, hurry: Callable[[], bool]) -> tuple[int | None, ...]:
        """End them and all their ranks; returns their exit codes, None for one that had to be killed or was lost."""

    @property
    def port(self) -> int:
        """The port at which the ranks meet."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the readers of the result."""


class OpenLauncher(Protocol):
    """A launcher that was found, with every call checked, and the way to its nodes."""

    container: Container | None
    """The container in which commands run, for a launcher that starts none itself."""

    @property
    def name(self) -> str:
        """The name in `--launcher`."""

    @property
    def starts_containers(self) -> bool:
        """It starts the image of a request itself."""

    def nodes(self, request: NodeRequest) -> tuple[Node, ...]:
        """The first `request.nodes` nodes that it offers; UserError if it offers none."""

    def remote(self, python: str | Interpreter | None) -> RemoteNodes:
        """The way to its nodes, whose `python` is this one by default."""

    def hand_over(self, submission: Submission, say: Callable[[str], None]) -> int | None:
        """The exit code of a command that the launcher has had run elsewhere; None if it is to be run here."""

    def preview(self, submission: Submission) -> str | None:
        """Text that the launcher would submit to its engine; None if nothing."""

    def close(self) -> None:
        """Give back what `nodes` has taken from the engine, once."""


class RemoteNodes(Protocol):
    """Brings a run to the nodes of one launcher, to one Python there, and its records back."""

    def reach(self, nodes: Sequence[Node], vendor: str | None, interface: str | None, choose: Chooser) -> NodesReached:
        """Ask all nodes for reports; UserError if one has none, or they differ too much. None: not given."""

    def agents(
        self,
        run: Path,
        plan: Plan,
        tag: str,
        secrets: Mapping[str, str],
        sample_seconds: float,
        warn: Callable[[str], None] | None,
    ) -> Agents:
        """The agents on `plan.nodes`, whose records come to the folder `run`.

        `tag` marks all processes of the run; `secrets` are variables of the ranks that the plan's file lacks.
        """

    def asking(self, reached: NodesReached, vendor: str) -> AbstractContextManager[ReachedNodes]:
        """Nodes to give tasks to; their programs start with the first task, and end with the context."""

    def examine(
        self,
        nodes: Sequence[Node],
        vendor: str | None,
        interface: str | None,
        choose: Chooser,
        checks: Sequence[NodesCheck],
        as_json: bool,
    ) -> int:
        """Print how the nodes are, beside each other, and what the checks of them show; 1 if there is a problem."""

    def fetch(self, run: Path, plan: Plan, nodes: Mapping[int, Node]) -> list[str]:
        """Bring what an earlier process has left on these nodes; a line for each. UserError if one does not answer."""
