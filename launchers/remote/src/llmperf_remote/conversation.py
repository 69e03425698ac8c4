"""Tasks that the controller gives to the node programs, with their answers."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec
from llmperf import __version__
from llmperf.errors import UserError
from llmperf.types import Launcher, Node

from llmperf_remote.link import Links, NodeState
from llmperf_remote.messages import SILENT_SECONDS, Answer, AnyMessage, Done, Failed, Task, short

TICK_SECONDS = 0.02


class Conversation:
    """Node programs that do tasks, from entering to leaving the `with` block."""

    def __init__(
        self,
        launcher: Launcher,
        nodes: Sequence[tuple[int, Node]],
        python: str,
        receive: Callable[[AnyMessage], None] | None = None,
    ) -> None:
        """`python` is the interpreter on each of `nodes`; `receive` gets the messages that are no answers."""
        self._python = python
        self._others = receive
        self._answers: dict[int, Answer] = {}
        self._failures: dict[int, str] = {}
        self._lock = threading.Lock()
        self._number = 0
        self.links = Links(
            launcher,
            nodes,
            python,
            self._receive,
            lambda rank: os.fdopen(os.open(os.devnull, os.O_WRONLY), "wb", 0),
        )

    def _receive(self, message: AnyMessage) -> None:
        with self._lock:
            if isinstance(message, Answer):
                if message.number == self._number:  # a node may answer what nobody asked
                    self._answers[message.node] = message
            elif isinstance(message, Failed):
                self._failures[message.node] = message.message
            elif self._others is not None:
                self._others(message)

    def __enter__(self) -> Conversation:
        self.links.start()
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        if kind is None:
            self.links.send(Done())
        self.links.close()

    def ask(self, name: str, arguments: Mapping[str, object], seconds: float) -> dict[int, msgspec.Raw | UserError]:
        """The answer of every node, by rank: a result, or the error of one line, also after `seconds` without one."""
        with self._lock:
            self._number += 1
            self._answers.clear()
        self.links.send(Task(number=self._number, name=name, arguments=arguments))
        deadline = time.monotonic() + seconds
        outcomes: dict[int, msgspec.Raw | UserError] = {}
        while len(outcomes) < len(self.links.states):
            for rank, state in self.links.states.items():
                if rank not in outcomes:
                    outcome = self._outcome(state, deadline, seconds)
                    if outcome is not None:
                        outcomes[rank] = outcome
            time.sleep(TICK_SECONDS)
        return {rank: outcomes[rank] for rank in self.links.states}

    def _outcome(self, state: NodeState, deadline: float, seconds: float) -> msgspec.Raw | UserError | None:
        where = f"node {state.node.host}: {self._python}"
        with self._lock:
            answer, failure = self._answers.get(state.rank), self._failures.get(state.rank)
        if state.hello is not None and state.hello.version != __version__:
            return UserError(
                f"{where}: has llmperf-core {state.hello.version}, expected {__version__} as here; install the same on"
                " both"
            )
        if answer is not None:
            return answer.result if answer.error is None else UserError(f"{where}: {short(answer.error)}")
        if failure is not None:
            return UserError(f"{where}: {short(failure)}")
        if state.gone is not None:
            return UserError(f"{f'node {state.node.host}' if state.explained else where}: {state.gone}")
        if time.monotonic() > deadline:
            return UserError(f"{where}: did not answer within {seconds:g} s")
        if state.hello is not None and state.silent_seconds > SILENT_SECONDS:
            return UserError(f"{where}: the connection was silent for {SILENT_SECONDS:g} s")
        return None
