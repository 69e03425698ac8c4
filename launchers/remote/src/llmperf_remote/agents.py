"""The agents of a run on the nodes that a launcher reaches."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from llmperf import decode
from llmperf.errors import UserError
from llmperf.launching import node_log_path, save_nodes
from llmperf.types import Launcher, Plan

from llmperf_remote.conversation import Conversation
from llmperf_remote.link import Links, NodeState
from llmperf_remote.messages import (
    BEAT_SECONDS,
    SILENT_SECONDS,
    Answer,
    AnyMessage,
    Done,
    Failed,
    Note,
    Piece,
    Prepared,
    RunOrder,
    Start,
    Stop,
    Task,
    bundles,
    short,
)
from llmperf_remote.shipping import Receiver

PREPARE_SECONDS = 120.0
"""Time for all nodes to make their run folders: each loads its plugins and asks its driver once."""
STOP_SECONDS = 40.0
"""Time for all nodes to end their ranks and to send what they have; a node that is silent is given up earlier."""
MAX_WARNINGS = 8
STACKS_SECONDS = 5.0
COLLECT_SECONDS = 15.0
"""Time to fetch the records of nodes whose connection was lost."""
TICK_SECONDS = 0.05


class LinkedAgents:
    """The agents on nodes that a launcher reaches, whose records come back over its connections."""

    def __init__(
        self,
        launcher: Launcher,
        python: str,
        run: Path,
        plan: Plan,
        tag: str,
        secrets: Mapping[str, str],
        sample_seconds: float,
        warn: Callable[[str], None] | None,
    ) -> None:
        self._run = run
        self._plan = plan
        self._tag = tag
        self._secrets = secrets
        self._launcher = launcher
        self._python = python
        self._sample_seconds = sample_seconds
        self._warn = warn
        self._receiver = Receiver(run, plan.layout, plan.steps)
        self._prepared: dict[int, Prepared] = {}
        self._failed: dict[int, str] = {}
        self._answers: dict[int, Answer] = {}
        self._notes: list[str] = []
        self._broken: str | None = None
        self._lost: dict[int, float] = {}
        self._undelivered: dict[int, str] = {}
        self._started = False
        self._links = Links(
            launcher,
            list(enumerate(plan.nodes[: plan.layout.nodes])),
            python,
            self._receive,
            lambda rank: node_log_path(run, rank).open("ab", buffering=0),
        )
        self.port = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of the nodes, and which records did not come back."""
        left = (
            f"{self._name(rank)}: its last records did not come back; they are in {folder} there"
            for rank, folder in sorted(self._undelivered.items())
        )
        return (*self._notes, *left)

    def _name(self, rank: int) -> str:
        return f"node {rank} ({self._plan.nodes[rank].host})"

    def _receive(self, message: AnyMessage) -> None:
        """Take a message, in the thread of the links."""
        if isinstance(message, Piece):
            try:
                self._receiver.take(message)
            except UserError as error:
                self._broken = self._broken or str(error)
        elif isinstance(message, Prepared):
            self._prepared[message.node] = message
        elif isinstance(message, Failed):
            self._failed[message.node] = short(message.message)
        elif isinstance(message, Answer):
            self._answers[message.node] = message
        elif isinstance(message, Note) and len(self._notes) < 2 * len(self._links.states):
            self._notes.append(f"{self._name(message.node)}: {short(message.text)}")

    def start(self, interrupted: Callable[[float], bool]) -> None:
        """Send the plan to the nodes, wait until all have prepared their folders, and start the agents."""
        self._links.start()
        order = RunOrder(
            run_id=self._plan.run_id,
            plan=(self._run / "plan.json").read_bytes(),
            tag=self._tag,
            env=self._secrets,
            sample_seconds=self._sample_seconds,
        )
        for bundle in bundles(order):
            self._links.send(bundle)
        if not self._wait_for_nodes(interrupted):
            return
        alone, first = self._plan.layout.nodes == 1, self._prepared[0]
        address = "127.0.0.1" if alone else self._plan.nodes[0].address
        self.port = first.port
        self._links.send(
            Start(master_address=address, master_port=first.port, store_address=f"{address}:{first.store_port}")
        )
        self._started = True
        if self._warn is not None:
            for rank in sorted(self._prepared):
                for line in self._prepared[rank].warnings[:MAX_WARNINGS]:
                    self._warn(f"{self._name(rank)}: {short(line)}")

    def _wait_for_nodes(self, interrupted: Callable[[float], bool]) -> bool:
        """Wait until all nodes are prepared; False after a signal. UserError with the first node that cannot be."""
        deadline = time.monotonic() + PREPARE_SECONDS
        while len(self._prepared) < len(self._links.states):
            if interrupted(TICK_SECONDS):
                return False
            for rank, message in self._failed.items():
                raise UserError(f"{self._name(rank)}: {message}")
            for rank, state in self._links.states.items():
                if state.gone is not None:
                    raise UserError(f"{self._name(rank)}: {state.gone}")
                if rank not in self._prepared and time.monotonic() > deadline:
                    raise UserError(f"{self._name(rank)}: was not ready within {PREPARE_SECONDS:g} s")
        return True

    def codes(self) -> tuple[int | None, ...]:
        """Their exit codes by node."""
        return tuple(state.ended for state in self._links.states.values())

    def lost(self) -> tuple[int | None, str] | None:
        """A node that has failed, ended or is silent; none if this process itself is the reason."""
        if self._broken is not None:
            return None, f"records cannot be kept: {self._broken}"
        for rank, message in self._failed.items():
            return rank, f"{self._name(rank)}: {message}"
        for state in self._links.states.values():
            if state.ended is None and (reason := self._reason(state)):
                if (paused := self._links.paused_seconds) > SILENT_SECONDS - BEAT_SECONDS:
                    return None, (
                        f"llmperf did not run for {paused:.0f} s: it was suspended, or this machine was; nodes end a"
                        f" run after {SILENT_SECONDS:g} s without it"
                    )
                return state.rank, f"{self._name(state.rank)}: {reason}"
        return None

    @staticmethod
    def _reason(state: NodeState) -> str | None:
        if state.gone is not None:
            return f"the connection has ended: {state.gone}"
        if state.silent_seconds > SILENT_SECONDS:
            return f"has not answered for {state.silent_seconds:.0f} s"
        return None

    def stacks(self) -> dict[int, str]:
        """The stacks of the ranks on all nodes that answer."""
        self._answers.clear()
        self._links.send(Task(number=1, name="stacks"))
        deadline = time.monotonic() + STACKS_SECONDS
        while len(self._answers) < len(self._links.states) and time.monotonic() < deadline:
            time.sleep(TICK_SECONDS)
        dumps: dict[int, str] = {}
        for node, answer in list(self._answers.items()):
            with suppress(UserError):
                texts = decode(bytes(answer.result) or b"{}", dict[int, str], "stacks")
                dumps |= {rank: text for rank, text in texts.items() if self._plan.layout.node_of(rank) == node}
        return dumps

    def stop(self, hurry: Callable[[], bool]) -> tuple[int | None, ...]:
        """End the ranks of all nodes, wait for their last records, and fetch those of nodes whose link was lost."""
        if self._started:
            self._links.send(Stop())
            deadline = time.monotonic() + STOP_SECONDS
            while (
                any(state.ended is None and self._reason(state) is None for state in self._links.states.values())
                and time.monotonic() < deadline
                and not hurry()
            ):
                time.sleep(TICK_SECONDS)
        codes = tuple(None if state.forced else state.ended for state in self._links.states.values())
        for rank, state in self._links.states.items():
            if state.ended is None and rank in self._prepared and self._started:
                self._lost[rank] = round(state.silent_seconds, 1)
        self._links.send(Done())
        self._links.close()
        if self._lost:
            self._collect()
        nodes = tuple(
            state.reached(state.node, self._lost.get(rank), self._undelivered.get(rank))
            for rank, state in self._links.states.items()
        )
        save_nodes(self._run, nodes)
        return codes

    def _collect(self) -> None:
        """Reach the lost nodes once more: end what runs there, and take the records that did not come back."""
        self._undelivered = {rank: self._prepared[rank].folder for rank in self._lost}
        seconds = COLLECT_SECONDS / len(self._lost)
        if self._warn is not None:
            which = self._name(min(self._lost)) if len(self._lost) == 1 else f"{len(self._lost)} nodes"
            self._warn(f"{which}: trying to reach again for the last records, for up to {COLLECT_SECONDS:g} s")
        for rank in self._lost:
            node = self._plan.nodes[rank]
            arguments = {"run_id": self._plan.run_id, "tag": self._tag, "sizes": self._receiver.sizes}
            try:
                with Conversation(self._launcher, [(rank, node)], self._python, self._receive) as conversation:
                    answer = conversation.ask("leftovers", arguments, seconds)[rank]
            except UserError:
                continue
            if not isinstance(answer, UserError):
                del self._undelivered[rank]
