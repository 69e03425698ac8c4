"""The actor of one node: a command as a subprocess, with its standard streams in memory. It imports no Ray."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

MAX_BUFFER_BYTES = 16 << 20
"""Output that waits to be fetched. The command waits when it is full."""
BATCH_BYTES = 8 << 20
POLL_SECONDS = 5.0
CHUNK_BYTES = 1 << 18
GATHER_SECONDS = 0.005
"""Time for more output after the first: one call per line would be slow."""


class _Output:
    """Bytes of one stream that wait to be fetched."""

    def __init__(self, stream: IO[bytes], changed: threading.Condition) -> None:
        self._stream = stream
        self._changed = changed
        self._waiting = bytearray()
        self.ended = False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while chunk := os.read(self._stream.fileno(), CHUNK_BYTES):
            with self._changed:
                self._changed.wait_for(lambda: len(self._waiting) < MAX_BUFFER_BYTES)
                self._waiting += chunk
                self._changed.notify_all()
        with self._changed:
            self.ended = True
            self._changed.notify_all()

    def ready(self) -> bool:
        """Check whether there are whole lines to fetch."""
        return bool(self._waiting) if self.ended else b"\n" in self._waiting

    def take(self) -> bytes:
        """The whole lines of about a batch; the rest as well when the stream has ended."""
        end = len(self._waiting) if self.ended else self._waiting.rfind(b"\n") + 1
        if end > BATCH_BYTES:
            end = self._waiting.find(b"\n", BATCH_BYTES, end) + 1 or end
        taken = bytes(self._waiting[:end])
        del self._waiting[:end]
        return taken


class NodeActor:
    """Runs one command. The process ends with the actor: its standard input ends, and Linux signals it."""

    def start(self, argv: Sequence[str], env: Mapping[str, str], keeps_threads: bool) -> str | None:
        """Start the command; the reason if that is impossible."""
        environment = dict(os.environ)
        if not keeps_threads:
            environment.pop("OMP_NUM_THREADS", None)  # Ray sets it to the CPUs of the actor
        with suppress(OSError):  # Ray lowers the priority of its workers; only root may raise it
            os.setpriority(os.PRIO_PROCESS, 0, 0)
        try:
            self._process = subprocess.Popen(
                argv,
                env={**environment, **env},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            return f"cannot start {argv[0]}: {error.strerror}"
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._changed = threading.Condition()
        self._outputs = (
            _Output(self._process.stdout, self._changed),
            _Output(self._process.stderr, self._changed),
        )
        return None

    def write(self, data: bytes | None) -> None:
        """Bytes for the standard input of the command; None ends it."""
        stdin = self._process.stdin
        assert stdin is not None
        with suppress(BrokenPipeError, ValueError):
            if data is None:
                stdin.close()
                return
            view = memoryview(data)
            while view:
                view = view[os.write(stdin.fileno(), view) :]

    def read(self) -> tuple[bytes, bytes, int | None]:
        """Lines of standard output and error, waiting some seconds, and the exit code when both have ended."""
        stdout, stderr = self._outputs
        with self._changed:
            self._changed.wait_for(
                lambda: stdout.ready() or stderr.ready() or (stdout.ended and stderr.ended), POLL_SECONDS
            )
        if not (stdout.ended and stderr.ended):
            time.sleep(GATHER_SECONDS)
        with self._changed:
            taken = stdout.take(), stderr.take()
            self._changed.notify_all()
            over = stdout.ended and stderr.ended and not (stdout.ready() or stderr.ready())
        return (*taken, self._process.wait() if over else None)
