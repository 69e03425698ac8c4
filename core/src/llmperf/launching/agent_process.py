"""An agent as a process of this machine: started in a session of its own, and ended with everything below it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from llmperf.measuring.processes import TAG, end_with_parent, group_of, send, send_group, sweep, tagged

GRACE_SECONDS = 4.0
"""Time between asking the agent to end, which then stops its ranks, and killing it."""
KILL_SECONDS = 1.0
"""Time for the guard of an agent to kill everything below it."""


class AgentProcess:
    """The agent of a node; it ends when this process ends."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], log: Path, pass_fds: tuple[int, ...] = ()) -> None:
        """Start it. `env` has its tag. OSError if that fails."""
        self._tag = env[TAG]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                argv,
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=pass_fds,
                preexec_fn=end_with_parent(signal.SIGTERM),
            )

    def code(self) -> int | None:
        """The exit code, negative for signals; None while it runs."""
        return self._process.poll()

    def stop(self, hurry: Callable[[], bool] = lambda: False) -> int | None:
        """End everything that still runs, first by SIGTERM, then by SIGKILL.

        Returns the exit code of the agent, or None if it had to be killed. `hurry` ends the wait for SIGTERM.
        """
        if self.code() is None:
            send(self._process.pid, signal.SIGTERM)
        deadline = time.monotonic() + GRACE_SECONDS
        while self.code() is None and time.monotonic() < deadline and not hurry():
            time.sleep(0.02)
        code = self.code()
        if code is None:
            self._kill()
        deadline = time.monotonic() + GRACE_SECONDS
        while self._without_guard() and time.monotonic() < deadline:
            time.sleep(0.05)
        sweep(self._tag)
        self._process.wait()
        return code

    def _kill(self) -> None:
        """A second SIGTERM makes the guard of the agent kill everything below it."""
        send(self._process.pid, signal.SIGTERM)
        deadline = time.monotonic() + KILL_SECONDS
        while self.code() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        if self.code() is None:
            send_group(self._process.pid, signal.SIGKILL)

    def _without_guard(self) -> bool:
        """Check whether an agent whose guard was killed still runs: it must have time to end the processes below it."""
        if self.code() != -signal.SIGKILL:
            return False
        return any(group_of(pid) == self._process.pid for pid in tagged(self._tag))
