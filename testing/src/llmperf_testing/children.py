"""Processes of the kit: they have a time limit, end with all their children, and write observations to a file."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from llmperf.files import json_files
from llmperf.launching.agent import python_module
from llmperf.measuring.processes import end_with_parent, send_group

from llmperf_testing.check import ContractError

T = TypeVar("T")

MAX_OBSERVATION_BYTES = 2**20


def observe(program: str, arguments: Sequence[str], kind: type[T], *, seconds: float, env: Mapping[str, str]) -> T:
    """The document that a program of the kit writes, as `kind`; ContractError if it fails or takes too long."""
    with tempfile.TemporaryDirectory(prefix="llmperf-check-") as folder:
        process = Child(program, [*arguments, "--out", str(Path(folder) / "seen.json")], Path(folder) / "log", env)
        process.wait(time.monotonic() + seconds)
        data = json_files.read_bytes(Path(folder) / "seen.json", MAX_OBSERVATION_BYTES)
    return json_files.decode(data, kind, program)


class Child:
    """One process of the kit's, in a session of its own."""

    def __init__(self, program: str, arguments: Sequence[str], log: Path, env: Mapping[str, str]) -> None:
        self._log = log
        self._program = program
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [*python_module(f"llmperf_testing.programs.{program}"), *arguments],
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent(signal.SIGKILL),
            )

    def wait(self, deadline: float) -> None:
        """Wait until it ends, by `time.monotonic()`; ContractError if it ends badly or not in time."""
        try:
            code = self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise ContractError(f"the process that tries it did not end in time; {self._last_line()}") from None
        finally:
            self.kill()
        if code:
            how = f"with status {code}" if code > 0 else f"by {signal.Signals(-code).name}"
            raise ContractError(f"the process that tries it ended {how}; {self._last_line()}")

    def kill(self) -> None:
        """End it and all its children."""
        send_group(self._process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)

    def _last_line(self) -> str:
        with self._log.open("rb") as file:
            file.seek(max(0, self._log.stat().st_size - 4096))
            lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
        return f"its last line: {lines[-1][:300]}" if lines else "it printed nothing"
