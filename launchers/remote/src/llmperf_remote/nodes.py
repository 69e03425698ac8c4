"""The nodes of a launcher: reached, given tasks, given the agents of a run, examined, and left records fetched."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import click
import msgspec
from llmperf import compact_hosts, decode, print_json
from llmperf.errors import UserError
from llmperf.launching import files_of_node, read_nodes, save_nodes, this_interpreter
from llmperf.types import Launcher, Node, NodeCommand, NodesChecked, NodesReached, Plan, ReachedNode, ReachedNodes
from llmperf.types.remote import Chooser, Container, NodesCheck

from llmperf_remote.agents import LinkedAgents
from llmperf_remote.conversation import Conversation
from llmperf_remote.differences import (
    NodeReport,
    ask_for_reports,
    concerns,
    described,
    differences,
    lines,
    placed_nodes,
    refuse_one_machine,
    usual_report,
)
from llmperf_remote.messages import AnyMessage, Piece
from llmperf_remote.shipping import Receiver

WHERE = "llmperf.toml: containers"
IMAGE = re.compile(r"[A-Za-z0-9./~][A-Za-z0-9._/:@+~-]{0,499}")
"""An image by name, digest or path: never an option of the engine."""
DEVICE = re.compile(r"/dev/[A-Za-z0-9._/-]+|[a-z0-9.-]+/[a-z0-9.-]+=[A-Za-z0-9.:_-]+")
"""A file or folder below /dev, or a name of the Container Device Interface."""
ALL_GPUS = "all"
GPU_LIBRARIES = re.compile(r"[a-z]{2,6}")
"""The name of an engine's option that brings the libraries of a driver into the container."""
MOUNT = re.compile(r"/[^:,\s]+:/[^:,\s]+(:r[ow])?")
PYTHON = re.compile(r"[A-Za-z0-9._/+][A-Za-z0-9._/+-]*")
STRAY_VARIABLES = ("PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV")
"""Variables of the host that would tie the image's interpreter to the host's packages."""


class InContainers:
    """A launcher that gets commands which run in containers on its nodes."""

    def __init__(self, launcher: Launcher, container: Container) -> None:
        """UserError if the image or a value of the table cannot be used."""
        self.name, self.nodes = launcher.name, launcher.nodes
        self._launcher, self._image, self._table = launcher, container.image, container.table
        _check(container, launcher.name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._launcher, name)

    def commands(self, nodes: Sequence[NodeCommand]) -> Sequence[NodeCommand]:
        """The launcher's commands for these in containers."""
        return self._launcher.commands([self.wrapped(node) for node in nodes])

    def wrapped(self, command: NodeCommand) -> NodeCommand:
        """The command in a new container; variables are passed on by name, as other users could read values."""
        python, *rest = command.argv
        if python == this_interpreter():
            python = self._table.python
        if self._table.engine == "apptainer":
            return replace(command, argv=(*self._apptainer(), python, *rest))
        return replace(command, argv=(*self._oci(command.env), "--entrypoint", python, self._image, *rest))

    def _apptainer(self) -> tuple[str, ...]:
        """Apptainer passes all on by itself; packages of the host and of the user's home folder are kept out."""
        gpus = () if self._table.gpus is None else (f"--{self._table.gpus}",)
        binds = (word for mount in self._table.mounts for word in ("--bind", mount))
        unset = (word for name in STRAY_VARIABLES for word in ("-u", name))
        return ("apptainer", "exec", *gpus, *binds, self._image, "env", *unset, "PYTHONNOUSERSITE=1")

    def _oci(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """Options that docker and podman share: limits, devices, `--init` for orphans, no pulling of images."""
        engine = str(self._table.engine)
        limits = ("--ulimit", "memlock=-1:-1") if engine == "docker" else ()  # podman passes on the user's own
        gpus = () if self._table.gpus is None else ("--gpus", self._table.gpus)
        devices = (word for device in self._table.devices for word in ("--device", device))
        mounts = (word for mount in self._table.mounts for word in ("--volume", mount))
        variables = (word for name in sorted(env) for word in ("--env", name))
        shared = ("--rm", "--interactive", "--init", "--pull", "never", "--network", "host", "--ipc", "host")
        return (engine, "run", *shared, *limits, *gpus, *devices, *mounts, *variables)


def _check(container: Container, launcher: str) -> None:
    image, table = container.image, container.table
    if not IMAGE.fullmatch(image):
        raise UserError(f"--container-image: expected the name or path of an image, found {image!r:.200}")
    if table.engine is None:
        raise UserError(f"--container-image {image}: launcher {launcher!r} starts no containers itself; expected "
                        f'engine = "apptainer", "docker" or "podman" in [containers] of llmperf.toml')  # fmt: skip
    for mount in table.mounts:
        if not MOUNT.fullmatch(mount) or ".." in mount:
            raise UserError(f"{WHERE}.mounts: expected paths such as /data:/data:ro, found {mount!r}")
    if not PYTHON.fullmatch(table.python):
        raise UserError(f"{WHERE}.python: expected the interpreter in the image, found {table.python!r}")
    for device in table.devices:
        if not DEVICE.fullmatch(device) or ".." in device:
            raise UserError(f"{WHERE}.devices: expected a path below /dev or a name of the Container Device Interface, "
                            f"found {device!r}")  # fmt: skip
    if table.devices and table.engine == "apptainer":
        raise UserError(f"{WHERE}.devices: apptainer shows a container all devices; expected gpus instead")
    if table.gpus is None:
        return
    if table.engine == "podman":
        raise UserError(f"{WHERE}.gpus: podman takes GPUs as devices; expected devices = [...] instead")
    if table.engine == "docker" and table.gpus != ALL_GPUS:
        raise UserError(f"{WHERE}.gpus: expected {ALL_GPUS!r} for docker, found {table.gpus!r}")
    if table.engine == "apptainer" and not GPU_LIBRARIES.fullmatch(table.gpus):
        raise UserError(f"{WHERE}.gpus: expected the name of an option of apptainer for the libraries of a driver, "
                        f"found {table.gpus!r}")  # fmt: skip


FETCH_SECONDS = 60.0


class Nodes:
    """Implements `llmperf.types.RemoteNodes` for any launcher, by the commands that it gives."""

    def __init__(self, launcher: Launcher, python: str, container: Container | None = None) -> None:
        self._launcher = launcher if container is None else InContainers(launcher, container)
        self._python = python

    def _conversation(
        self, nodes: Sequence[tuple[int, Node]], receive: Callable[[AnyMessage], None] | None = None
    ) -> Conversation:
        return Conversation(self._launcher, nodes, self._python, receive)

    def reach(self, nodes: Sequence[Node], vendor: str | None, interface: str | None, choose: Chooser) -> NodesReached:
        """Ask the nodes for their reports, and compare them."""
        with self._conversation(list(enumerate(nodes))) as conversation:
            reached = ask_for_reports(conversation, nodes, self._python, vendor)
        if reached.failures:
            first, *others = reached.failures
            more = f"; also without a report: {compact_hosts(nodes[rank].host for rank in others)}" if others else ""
            raise UserError(reached.failures[first] + more)
        reports = tuple(reached.reports.values())
        usual = usual_report(reports)
        chosen = choose(usual)
        placed = placed_nodes(nodes, reports, interface)
        refuse_one_machine(placed, reports)
        unlike = differences(chosen, placed, reports)
        if refused := [f"nodes differ in {difference}" for difference in unlike if difference.refuses]:
            raise UserError("; ".join(refused))
        disturbing = concerns(chosen, placed, reports, reached.clocks)
        differing = (f"nodes differ in {difference}" for difference in unlike)
        return NodesReached(nodes=placed, reports=reports, usual=usual, concerns=(*differing, *disturbing))

    def agents(
        self,
        run: Path,
        plan: Plan,
        tag: str,
        secrets: Mapping[str, str],
        sample_seconds: float,
        warn: Callable[[str], None] | None,
    ) -> LinkedAgents:
        """The agents of one start of a run."""
        return LinkedAgents(self._launcher, self._python, run, plan, tag, secrets, sample_seconds, warn)

    @contextmanager
    def asking(self, reached: NodesReached, vendor: str, failed: int = 0) -> Iterator[ReachedNodes]:
        """Nodes to give tasks to; their programs start with the first task, and end with the context."""
        with ExitStack() as stack:
            yield Asked(stack, self._conversation(list(enumerate(reached.nodes))), reached, vendor, failed)

    def examine(
        self,
        nodes: Sequence[Node],
        vendor: str | None,
        interface: str | None,
        choose: Chooser,
        checks: Sequence[NodesCheck],
        as_json: bool,
    ) -> int:
        """Print what nodes report, how they differ, and what checks of those show that have answered."""
        with self._conversation(list(enumerate(nodes))) as conversation:
            reached = ask_for_reports(conversation, nodes, self._python, vendor)
        failures, reports, placed = dict(reached.failures), dict(reached.reports), dict[int, Node]()
        for rank in list(reports):
            try:
                (placed[rank],) = placed_nodes([nodes[rank]], [reports[rank]], interface)
            except UserError as error:
                failures[rank] = str(error)
                del reports[rank]
        usable, known = tuple(placed.values()), tuple(reports.values())
        refuse_one_machine(usable, known)
        chosen, found = None, list[NodesChecked]()
        with suppress(UserError):  # no vendor plugin sees a device there
            chosen = choose(usual_report(known)) if known else None
        if chosen is not None:
            usual = NodesReached(nodes=usable, reports=known, usual=known[0], concerns=())
            with self.asking(usual, chosen, len(failures)) as asked:
                found = [check(asked) for check in checks]
        clocks = {place: reached.clocks[rank] for place, rank in enumerate(reports) if rank in reached.clocks}
        unlike = differences(chosen or "", usable, known)
        report: dict[str, Any] = {
            "vendor": chosen,
            "nodes": [
                described(placed.get(at, node), reports.get(at), chosen, reached.clocks.get(at), failures.get(at))
                for at, node in enumerate(nodes)
            ],
            "differences": unlike,
            "concerns": list(concerns(chosen or "", usable, known, clocks)),
        }
        if as_json:
            print_json({**report, **{key: each.document[key] for each in found for key in each.document}})
        else:
            for line in lines(report):
                click.echo(line)
            for one in found:
                one.show()
        sick = failures or chosen is None or any(difference.refuses for difference in unlike)
        return 1 if sick or any(one.problems for one in found) else 0

    def fetch(self, run: Path, plan: Plan, nodes: Mapping[int, Node]) -> list[str]:
        """Take the records of these nodes into the run folder and delete them there; a line on what came of each."""
        files = {rank: files_of_node(rank, plan.layout) for rank in nodes}
        receiver = Receiver(run, plan.layout, plan.steps)
        for name in (name for names in files.values() for name in names):
            if (run / name).is_file():
                receiver.sizes[name] = (run / name).stat().st_size
        problems: dict[int, str] = {}

        def receive(message: AnyMessage) -> None:
            try:
                if isinstance(message, Piece):
                    receiver.take(message)
            except UserError as error:
                problems.setdefault(message.node, str(error))

        before = dict(receiver.sizes)
        with self._conversation(list(nodes.items()), receive) as conversation:
            answers = conversation.ask("leftovers", {"run_id": plan.run_id, "sizes": before}, FETCH_SECONDS)
            states = conversation.links.states
            problems |= {rank: str(answer) for rank, answer in answers.items() if isinstance(answer, UserError)}
            if problems:
                raise UserError("; ".join(problems.values()))  # what was not written here stays there
        told, reached = [], {node.node_rank: node for node in read_nodes(run)}
        for rank in nodes:
            count = sum(receiver.sizes.get(name, 0) - before.get(name, 0) for name in files[rank])
            told.append(f"node {rank} ({plan.nodes[rank].host}): {count:,} bytes of records and logs were fetched")
            reached[rank] = replace(reached.get(rank) or states[rank].reached(plan.nodes[rank]), undelivered=None)
        save_nodes(run, tuple(reached[rank] for rank in sorted(reached)))
        return told


class Asked:
    """Implements `llmperf.types.ReachedNodes`."""

    def __init__(
        self, stack: ExitStack, conversation: Conversation, reached: NodesReached, vendor: str, failed: int
    ) -> None:
        self._stack, self._conversation, self._begun, self.failed = stack, conversation, False, failed
        reports = cast(Sequence[NodeReport], reached.reports)
        probes = [next((probe for probe in report.probes if probe.vendor == vendor), None) for report in reports]
        self.nodes = tuple(
            ReachedNode(
                host=node.host,
                address=node.address,
                interface=node.interface,
                machine=report.host.boot_id,
                accelerators=0 if probe is None or probe.on_cpu or probe.simulated else len(probe.devices),
            )
            for node, report, probe in zip(reached.nodes, reports, probes, strict=True)
        )

    def ask(self, name: str, arguments: object, seconds: float) -> dict[int, Any | UserError]:
        """Give a task to all nodes."""
        if not self._begun:
            self._begun = bool(self._stack.enter_context(self._conversation))
        answers = self._conversation.ask(name, msgspec.to_builtins(arguments), seconds)
        return {
            rank: answer if isinstance(answer, UserError) else decode(bytes(answer), dict, f"task {name!r}")
            for rank, answer in answers.items()
        }
