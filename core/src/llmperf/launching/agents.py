"""The agent of a run on this machine."""

from __future__ import annotations

from collections.abc import Callable

from llmperf.errors import UserError
from llmperf.launching.launchers import free_port
from llmperf.launching.run_here import RunHere


class LocalAgents:
    """Implements `llmperf.types.Agents` for this machine, where the agent writes into the controller's run folder."""

    notes: tuple[str, ...] = ()

    def __init__(self, here: RunHere) -> None:
        self._here = here
        self.port = free_port()

    def start(self, interrupted: Callable[[float], bool]) -> None:
        """Start it."""
        node = self._here.plan.nodes[0]
        try:
            self._here.start(node.address, self.port, node.env)
        except UserError as error:
            raise UserError(f"launcher {self._here.plan.launcher!r}: {error}") from None

    def codes(self) -> tuple[int | None, ...]:
        """Its exit code."""
        return (self._here.code(),) if self._here.started else ()

    def lost(self) -> None:
        """None: this machine is here."""

    def stacks(self) -> dict[int, str]:
        """The stacks of its ranks."""
        return self._here.stacks()

    def stop(self, hurry: Callable[[], bool]) -> tuple[int | None, ...]:
        """End it and its ranks."""
        return (self._here.stop(hurry),) if self._here.started else ()
