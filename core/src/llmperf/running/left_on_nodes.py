"""Records that a run has left on its nodes: its controller was killed, or their connection was lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from llmperf.errors import LlmperfError, UserError
from llmperf.files import json_files
from llmperf.launching.shipping import Receiver, files_of_node
from llmperf.links.conversation import Conversation
from llmperf.links.link import this_interpreter
from llmperf.links.messages import AnyMessage, Piece
from llmperf.planning.launchers import installed_launcher
from llmperf.planning.states import LOCAL
from llmperf.planning.user_config import user_config
from llmperf.runfolder import filenames
from llmperf.runfolder.endings import ReachedNode, read_nodes
from llmperf.types.launching import NodeRequest
from llmperf.types.plan import Plan

LIMIT_SECONDS = 60.0
"""Time for all nodes together."""


def nodes_with_records(run: Path, plan: Plan) -> tuple[int, ...]:
    """The nodes whose records may not all be in the run folder: all of them if the controller was killed."""
    if plan.launcher == LOCAL or plan.layout.nodes == 1:
        return ()
    reached = read_nodes(run)
    if not reached:
        return tuple(range(plan.layout.nodes))
    return tuple(node.node_rank for node in reached if node.undelivered is not None)


def fetch(run: Path, plan: Plan, nodes: tuple[int, ...], say: Callable[[str], None]) -> tuple[int, ...]:
    """Take the records of these nodes into the run folder and delete them there; returns the nodes that have answered.

    `say` gets a line for each node: what came, or why nothing did.
    """
    hosts = tuple(plan.nodes[rank].host for rank in nodes)
    python = this_interpreter() if plan.interpreter is None else plan.interpreter.path
    receiver = Receiver(run, plan.layout, plan.steps)
    for name in (name for rank in nodes for name in files_of_node(rank, plan.layout)):
        if (run / name).is_file():
            receiver.sizes[name] = (run / name).stat().st_size
    problems: dict[int, str] = {}

    def receive(message: AnyMessage) -> None:
        try:
            if isinstance(message, Piece):
                receiver.take(message)
        except UserError as error:
            problems.setdefault(message.node, str(error))

    try:
        options = user_config(Path.cwd()).tables.launchers.get(plan.launcher, {})
        launcher = installed_launcher(plan.launcher, plan.vendor)
        try:
            offered = launcher.nodes(NodeRequest(nodes=len(nodes), devices=None, hosts=hosts, options=options))
            before = dict(receiver.sizes)
            with Conversation(launcher, list(zip(nodes, offered, strict=False)), python, receive) as conversation:
                arguments = {"run_id": plan.run_id, "sizes": before}
                answers = conversation.ask("recollect", arguments, LIMIT_SECONDS)
                states = conversation.links.states
                problems |= {rank: str(answer) for rank, answer in answers.items() if isinstance(answer, UserError)}
                if problems:
                    raise UserError("; ".join(problems.values()))  # what was not written here stays there
        finally:
            launcher.close()
    except LlmperfError as error:
        say(f"records on {', '.join(hosts)} were not fetched: {error}")
        return ()
    for rank in nodes:
        files = files_of_node(rank, plan.layout)
        count = sum(receiver.sizes.get(name, 0) - before.get(name, 0) for name in files)
        say(f"node {rank} ({plan.nodes[rank].host}): {count:,} bytes of records and logs were fetched")
    reached = {node.node_rank: node for node in read_nodes(run)}
    for rank in nodes:
        known = reached.get(rank) or ReachedNode(
            node_rank=rank,
            host=plan.nodes[rank].host,
            address=plan.nodes[rank].address,
            interface=plan.nodes[rank].interface,
            clock_offset_seconds=states[rank].clock_offset_seconds,
            clock_error_seconds=states[rank].clock_error_seconds,
        )
        reached[rank] = replace(known, undelivered=None)
    json_files.save(run / filenames.NODES, tuple(reached[rank] for rank in sorted(reached)))
    return nodes
