"""The agents of a run: what a controller needs of them, and the one of a run on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from llmperf.errors import UserError
from llmperf.launching.agent_process import AgentProcess
from llmperf.launching.hang import dump_stacks
from llmperf.launching.launchers import agent_command, free_port, of_node
from llmperf.launching.wakeup import Wakeup
from llmperf.measuring.processes import TAG
from llmperf.runfolder import filenames
from llmperf.types.plan import Plan


class Agents(Protocol):
    """What a controller needs of the agents."""

    def start(self, wakeup: Wakeup | None) -> None:
        """Start them all; UserError if one cannot be started. Returns early after a signal."""
        ...

    def codes(self) -> tuple[int | None, ...]:
        """Their exit codes by node, negative for signals; None while one runs."""
        ...

    def lost(self) -> tuple[int | None, str] | None:
        """A node that cannot be reached any more, and why, in one line; None for the node if llmperf itself failed."""
        ...

    def stacks(self) -> dict[int, str]:
        """What each running rank writes to its log when it is asked for its stacks."""
        ...

    def stop(self, hurry: Callable[[], bool]) -> tuple[int | None, ...]:
        """End them and all their ranks; returns their exit codes, None for one that had to be killed or was lost."""
        ...

    @property
    def port(self) -> int:
        """The port at which the ranks meet."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the result should know."""
        ...


class LocalAgents:
    """The agent on this machine, which writes into the controller's run folder."""

    notes: tuple[str, ...] = ()

    def __init__(self, run: Path, plan: Plan, tag: str) -> None:
        self._run = run
        self._plan = plan
        self._tag = tag
        self._agent: AgentProcess | None = None
        self.port = free_port()

    def start(self, wakeup: Wakeup | None) -> None:
        """Start it."""
        plan, node = self._plan, self._plan.nodes[0]
        argv = agent_command(self._run, plan, 0, node.address, self.port)
        env = {**of_node(plan.env, plan, 0), **node.env, TAG: self._tag}
        try:
            self._agent = AgentProcess(argv, env, filenames.agent_log_path(self._run, 0))
        except OSError as error:
            raise UserError(f"launcher {plan.launcher!r}: cannot start {argv[0]}: {error.strerror}") from None

    def codes(self) -> tuple[int | None, ...]:
        """Its exit code."""
        return () if self._agent is None else (self._agent.code(),)

    def lost(self) -> None:
        """None: this machine is here."""

    def stacks(self) -> dict[int, str]:
        """The stacks of its ranks."""
        return dump_stacks(self._run)

    def stop(self, hurry: Callable[[], bool]) -> tuple[int | None, ...]:
        """End it and its ranks."""
        return () if self._agent is None else (self._agent.stop(hurry),)
