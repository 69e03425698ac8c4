"""The nodes of a launcher: reached, given tasks, given the agents of a run, examined, and left records fetched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import click
import msgspec
from llmperf import compact_hosts, decode, print_json
from llmperf.errors import UserError
from llmperf.launching import ReachedNode as RecordedNode
from llmperf.launching import files_of_node, read_nodes, save_nodes
from llmperf.types import Launcher, Node, NodesChecked, NodesReached, Plan, ReachedNode, ReachedNodes
from llmperf.types.remote import Chooser, Container, NodesCheck

from llmperf_remote.agents import LinkedAgents
from llmperf_remote.containers import InContainers
from llmperf_remote.conversation import Conversation
from llmperf_remote.differences import concerns, described, differences, lines, refuse_one_machine, usual_report
from llmperf_remote.messages import AnyMessage, Piece
from llmperf_remote.reports import NodeReport, ask_for_reports, placed_nodes
from llmperf_remote.shipping import Receiver

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
            known = reached.get(rank) or RecordedNode(
                node_rank=rank,
                host=plan.nodes[rank].host,
                address=plan.nodes[rank].address,
                interface=plan.nodes[rank].interface,
                clock_offset_seconds=states[rank].clock_offset_seconds,
                clock_error_seconds=states[rank].clock_error_seconds,
            )
            reached[rank] = replace(known, undelivered=None)
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
