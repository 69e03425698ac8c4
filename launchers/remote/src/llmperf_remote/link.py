"""The controller's side: starts the processes of a launcher, and exchanges lines with the node programs behind them."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import IO

from llmperf import printable
from llmperf.errors import LlmperfError, UserError
from llmperf.launching import PROGRAM, ReachedNode
from llmperf.types import Launcher, Node, NodeCommand
from llmperf.types.launching import NODE_RANK

from llmperf_remote.carrier import Carrier, make_room
from llmperf_remote.messages import (
    BEAT_SECONDS,
    MAX_LINE_BYTES,
    START,
    AnyMessage,
    Beat,
    Echo,
    Ended,
    Hello,
    Request,
    line_of,
    message_of,
)

NODE_PROGRAM = (
    f"{PROGRAM}find_spec('llmperf_remote') or sys.exit('llmperf-remote is not installed'); "
    "from llmperf_remote.node import main; main()"
)
"""The node program. It runs on any Python, and imports nothing from the current folder."""
CLOSE_SECONDS = 3.0
"""Time for a process to end after its standard input was closed."""
MAX_CLOCK_SECONDS = 1e11
TICK_SECONDS = 0.05
LATE_SECONDS = 2.0
"""Time between two looks at the connections on a busy host. In a longer time this process did not run."""
FIRST_BEAT_SECONDS = 0.1


@dataclass(slots=True)
class NodeState:
    """Knowledge of one node program."""

    node: Node
    rank: int
    hello: Hello | None = None
    first_beat: int = 0
    """The last beat that was sent before it answered."""
    ended: int | None = None
    forced: bool = False
    heard: float = field(default_factory=time.monotonic)
    """Time of its last line, by the controller's monotonic clock; time in which that did not run is added."""
    looked: float = field(default_factory=time.monotonic)
    """Time at which the controller last looked for lines."""
    clock_offset_seconds: float | None = None
    """The node's wall clock minus the controller's, from the exchange with the shortest round trip."""
    clock_error_seconds: float | None = None
    """Half of that round trip."""
    gone: str | None = None
    """The reason why the connection has ended, if it has, in one line."""
    explained: bool = False
    """That line is the launcher's: about the connection rather than about the Python on the node."""

    @property
    def silent_seconds(self) -> float:
        """Seconds without a line when the controller last looked."""
        return self.looked - self.heard

    def reached(self, node: Node, lost_seconds: float | None = None, undelivered: str | None = None) -> ReachedNode:
        """What the run folder keeps of the node, as it was planned."""
        return ReachedNode(
            node_rank=self.rank,
            host=node.host,
            address=node.address,
            interface=node.interface,
            clock_offset_seconds=self.clock_offset_seconds,
            clock_error_seconds=self.clock_error_seconds,
            lost_seconds=lost_seconds,
            undelivered=undelivered,
        )


class Links:
    """The node programs of some nodes; one thread writes requests and beats, reads messages and calls `receive`."""

    def __init__(
        self,
        launcher: Launcher,
        nodes: Sequence[tuple[int, Node]],
        python: str,
        receive: Callable[[AnyMessage], None],
        errors: Callable[[int], IO[bytes]],
    ) -> None:
        """`python` is the interpreter on `nodes`; `errors` opens the file for stray output of the node of a rank."""
        self.states = {rank: NodeState(node=node, rank=rank) for rank, node in nodes}
        self._launcher = launcher
        self._python = python
        self._receive = receive
        self._errors = errors
        self._processes: list[Carrier] = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._beats: dict[int, tuple[float, float]] = {}
        self._beat = 0
        self._due = 0.0
        """When the next beat is to be sent, by the monotonic clock."""
        self.paused_seconds = 0.0
        """The longest time for which this process did not look at the connections: it was suspended, say."""
        self._thread = threading.Thread(target=self._exchange, name="llmperf-links", daemon=True)

    def start(self) -> None:
        """Start the processes; UserError if one cannot be started, or there are too many for this process."""
        commands = [
            NodeCommand(
                node_rank=rank,
                host=state.node.host,
                argv=(self._python, "-u", "-c", NODE_PROGRAM),
                env={**state.node.env, NODE_RANK: str(rank)},
            )
            for rank, state in self.states.items()
        ]
        make_room(len(commands), self._launcher.name)
        try:
            for command in self._launcher.commands(commands):
                errors = partial(self._errors, command.node_rank)
                self._processes.append(Carrier(command, errors, self._launcher.name))
            if len(self._processes) == len(commands):
                for process in self._processes:
                    process.ranks.add(process.command.node_rank)
        except BaseException:
            self._end_processes()
            raise
        self._thread.start()

    def send(self, request: Request) -> None:
        """Send a request to every node, at once and in order."""
        line = line_of(request)
        if len(line) > MAX_LINE_BYTES:
            raise ValueError(f"{type(request).__name__}: a line of {len(line)} bytes")
        with self._lock:
            for process in self._processes:
                process.waiting.append(line)

    def close(self) -> None:
        """Close the standard input of every process, so that the node programs end, and end those that do not."""
        deadline = time.monotonic() + CLOSE_SECONDS
        while any(process.waiting for process in self._processes) and time.monotonic() < deadline:
            if all(process.popen.poll() is not None for process in self._processes):
                break
            time.sleep(0.02)
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(CLOSE_SECONDS)
        self._end_processes()

    def _end_processes(self) -> None:
        for process in self._processes:
            process.close_input()
        deadline = time.monotonic() + CLOSE_SECONDS
        for process in self._processes:
            # its output is read, so that it does not block before it ends
            while process.popen.poll() is None and time.monotonic() < deadline:
                with suppress(OSError):
                    os.read(process.output, MAX_LINE_BYTES)
                process.read_errors()
                time.sleep(0.01)
            if process.popen.poll() is None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.popen.pid, signal.SIGKILL)
            process.popen.wait()
            process.close()

    def _exchange(self) -> None:
        with selectors.DefaultSelector() as selector:
            for process in self._processes:
                selector.register(process.output, selectors.EVENT_READ, (process, self._read))
                selector.register(process.error_output, selectors.EVENT_READ, (process, Carrier.read_errors))
            looked = time.monotonic()
            while not self._stopping.is_set():
                looked, before = time.monotonic(), looked
                # no node is to blame for its silence while this process did not run
                seconds = looked - before
                pause = seconds if seconds > LATE_SECONDS else 0.0
                self.paused_seconds = max(self.paused_seconds, pause)
                for state in self.states.values():
                    state.heard += pause
                    state.looked += seconds
                if time.monotonic() >= self._due:
                    self._due = time.monotonic() + BEAT_SECONDS
                    self._send_beat()
                with self._lock:
                    for process in self._processes:
                        process.write_waiting()
                for key, _ in selector.select(TICK_SECONDS):
                    process, read = key.data
                    if not read(process):
                        selector.unregister(key.fileobj)
                if not selector.get_map():
                    self._stopping.wait(TICK_SECONDS)

    def _send_beat(self) -> None:
        self._beat += 1
        self._beats[self._beat] = (time.time(), time.monotonic())
        self._beats.pop(self._beat - 100, None)
        with self._lock:
            for process in self._processes:
                if not process.waiting:  # a beat that waits would only tell that a connection is slow
                    process.waiting.append(line_of(Beat(number=self._beat)))

    def _read(self, process: Carrier) -> bool:
        """Handle what has come from a process; returns whether more may come."""
        try:
            data = os.read(process.output, MAX_LINE_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        if not data:
            with suppress(subprocess.TimeoutExpired):
                process.popen.wait(CLOSE_SECONDS)
            process.finished = True
            ranks = process.ranks if len(self._processes) > 1 else set(self.states)
            if all(other.finished for other in self._processes):
                ranks = set(self.states)
            for rank in ranks:
                if self.states[rank].gone is None:
                    self.states[rank].gone, self.states[rank].explained = self._why(
                        process, self.states[rank].node.host
                    )
            return False
        process.buffer += data
        end = process.buffer.rfind(b"\n") + 1
        if end == 0 and len(process.buffer) > 2 * MAX_LINE_BYTES:
            process.keep(bytes(process.buffer))
            process.buffer.clear()
        if end:
            lines, rest = bytes(process.buffer[:end]), process.buffer[end:]
            process.buffer = rest
            for line in lines.splitlines():
                self._take(process, line)
        return True

    def _take(self, process: Carrier, line: bytes) -> None:
        if not line.startswith(START):
            process.keep(line + b"\n")
            return
        try:
            message = message_of(line, f"launcher {self._launcher.name!r}")
        except UserError as error:
            process.keep(f"{error}\n".encode())
            return
        state = self.states.get(message.node)
        if state is None or (process.ranks and len(self._processes) > 1 and message.node not in process.ranks):
            process.keep(b"a line of another node was left out\n")
            return
        process.ranks.add(message.node)
        state.heard = time.monotonic()
        if isinstance(message, Hello):
            state.hello = message
            state.first_beat = self._beat
            self._due = min(self._due, time.monotonic() + FIRST_BEAT_SECONDS)
        elif isinstance(message, Echo):
            self._compare_clocks(state, message)
            return
        self._receive(message)
        if isinstance(message, Ended):
            state.ended, state.forced = message.code, message.forced

    def _compare_clocks(self, state: NodeState, echo: Echo) -> None:
        """The offset of a node's clock: its reading lies between the sending of a beat and the coming of its answer."""
        sent = self._beats.get(echo.number)
        if sent is None or echo.number <= state.first_beat:  # sent while the node's Python was still starting
            return
        if not 0 <= echo.at <= MAX_CLOCK_SECONDS:
            return
        error = (time.monotonic() - sent[1]) / 2
        if state.clock_error_seconds is None or error < state.clock_error_seconds:
            state.clock_error_seconds = error
            state.clock_offset_seconds = echo.at - (sent[0] + error)

    def _why(self, process: Carrier, host: str) -> tuple[str, bool]:
        """Reasons why a process has ended, in one line, and whether the launcher says so."""
        code, errors = process.popen.poll(), process.last_errors()
        explain = getattr(self._launcher, "explain", None)
        if code is not None and explain is not None:
            try:
                reason = explain(host, code, errors)
            except LlmperfError as error:
                reason = str(error)
            if reason:
                return str(reason), True
        lines = [line for line in errors.splitlines() if line.strip()]
        last = " ".join(printable(lines[-1], " ").split())[:500] if lines else "no output"
        return f"{last} (exit status {code})", False
