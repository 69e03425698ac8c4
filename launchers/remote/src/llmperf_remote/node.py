"""The node program: does the controller's tasks on one node, and runs the agent there.

It reads requests from standard input and writes messages to standard output (`llmperf_remote.messages`). It ends all
that it has started when standard input ends or is silent for SILENT_SECONDS. The run folder on the node is deleted when
the controller has everything, and kept otherwise.
"""

from __future__ import annotations

import os
import queue
import select
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from llmperf import __version__
from llmperf.errors import LlmperfError, UserError
from llmperf.types.launching import NODE_RANK

from llmperf_remote.messages import (
    MAX_LINE_BYTES,
    SILENT_SECONDS,
    Answer,
    Beat,
    Bundle,
    Done,
    Echo,
    Failed,
    Hello,
    Line,
    Start,
    Stop,
    Task,
    line_of,
    order_of,
    request_of,
    unpacked,
)

if TYPE_CHECKING:
    from llmperf.types import NodeWork

    from llmperf_remote.run_on_node import RunOnNode

TICK_SECONDS = 0.1
MAX_WAITING_LINES = 32
"""Lines that may wait until the connection takes them; files wait where they are."""
MAX_ORDER_BYTES = 64 * 2**20


class Program:
    """One node, as long as its standard input is open."""

    def __init__(self, node: int, output: int) -> None:
        self.node = node
        self._output = output
        self._lines: queue.Queue[bytes] = queue.Queue(MAX_WAITING_LINES)
        self._tasks: queue.Queue[Task] = queue.Queue()
        self._pieces = bytearray()
        self._order: RunOnNode | None = None
        self._buffer = bytearray()
        self._heard = time.monotonic()
        self._over = False
        self._signalled = False
        self._collected: Path | None = None
        self._works: dict[str, NodeWork] = {}
        """Tasks of extensions that have begun here, by name."""

    def run(self) -> int:
        """Serve until the controller is done or gone; returns the exit code of the agent, or 0 without one."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: setattr(self, "_signalled", True))
        threading.Thread(target=self._write, daemon=True).start()
        threading.Thread(target=self._work, daemon=True).start()
        self.send(Hello(node=self.node, version=__version__))
        delivered = False
        try:
            while not self._over and not self._signalled:
                self._read()
                if time.monotonic() - self._heard > SILENT_SECONDS:
                    break
                if self._order is not None:
                    self._order.look()
            delivered = self._over and not self._signalled
        finally:
            for work in self._works.values():
                work.close()
            code = self._order.end(delivered) if self._order is not None else 0
            if delivered and self._collected is not None:
                from llmperf_remote.run_on_node import delete_run

                delete_run(self._collected)
        return code

    def send(self, line: Line, wait: bool = True) -> bool:
        """Send a line; returns False if the connection is busy and `wait` is false."""
        try:
            self._lines.put(line_of(line), block=wait, timeout=SILENT_SECONDS if wait else None)
        except queue.Full:
            return False
        return True

    def _write(self) -> None:
        while True:
            view = memoryview(self._lines.get())
            try:
                while view:
                    view = view[os.write(self._output, view) :]
            except OSError:  # the controller is gone, which the other thread sees at standard input
                return

    def _read(self) -> None:
        if not select.select([0], [], [], TICK_SECONDS)[0]:
            return
        data = os.read(0, MAX_LINE_BYTES)
        if not data:
            self._signalled = True
            return
        self._buffer += data
        if b"\n" not in data and len(self._buffer) > 2 * MAX_LINE_BYTES:
            raise UserError("request of the controller: a line that is too long")
        *lines, rest = bytes(self._buffer).split(b"\n")
        self._buffer = bytearray(rest)
        for line in lines:
            self._heard = time.monotonic()
            if line.strip():
                request = request_of(line)
                if isinstance(request, Beat):
                    self.send(Echo(node=self.node, number=request.number, at=time.time()), wait=False)
                elif isinstance(request, Task):
                    self._tasks.put(request)
                elif isinstance(request, Bundle):
                    self._collect(request)
                elif isinstance(request, Done):
                    self._over = True
                elif self._order is not None:
                    if isinstance(request, Start):
                        self._order.start(request)
                    elif isinstance(request, Stop):
                        self._order.stop()

    def _collect(self, bundle: Bundle) -> None:
        self._pieces += unpacked(bundle.data, "request of the controller")
        if len(self._pieces) > MAX_ORDER_BYTES:
            raise UserError("request of the controller: a plan that is too large")
        if bundle.piece == bundle.pieces - 1:
            order = order_of(bytes(self._pieces))
            self._pieces.clear()
            from llmperf_remote.run_on_node import RunOnNode

            try:
                self._order = RunOnNode(order, self.node, self.send)
            except (LlmperfError, OSError) as error:
                text = f"{error.strerror or error}: {error.filename}" if isinstance(error, OSError) else str(error)
                self.send(Failed(node=self.node, message=text))

    def _work(self) -> None:
        """Do the tasks one after the other, so that a driver that hangs does not silence the node."""
        while True:
            task = self._tasks.get()
            try:
                result = self._answered(task.name, task.arguments)
                answer = Answer(node=self.node, number=task.number, result=msgspec.Raw(msgspec.json.encode(result)))
                if len(bytes(answer.result)) > MAX_LINE_BYTES // 2:
                    raise UserError(f"task {task.name!r}: its answer is too long")
            except Exception as error:
                text = str(error) if isinstance(error, LlmperfError) else f"{type(error).__name__}: {error}"
                answer = Answer(node=self.node, number=task.number, error=" ".join(text.split())[:2000])
            self.send(answer)

    def _answered(self, name: str, arguments: Mapping[str, Any]) -> object:
        """The answer to a task by name; UserError if no installed package has it."""
        if name == "report":  # `addresses` are those of all nodes, by rank
            from llmperf_remote.differences import node_report

            return node_report(arguments.get("vendor"), arguments["addresses"][self.node])
        if name == "load":
            from llmperf.launching import load_here

            devices, on_cpu = tuple(map(int, arguments["devices"])), bool(arguments["on_cpu"])
            return load_here(str(arguments["vendor"]), devices, on_cpu, float(arguments["seconds"]))
        if name == "stacks":
            stacks = {} if self._order is None else self._order.run.stacks()
            return {str(rank): text for rank, text in stacks.items()}
        if name == "leftovers":
            from llmperf_remote.run_on_node import leftovers

            self._collected = leftovers(self.node, self.send, arguments) or self._collected
            return {"folders": int(self._collected is not None)}
        if name not in self._works:
            from llmperf import every_answer

            found = [task for task in every_answer("llmperf_node_tasks", "extension") if task.name == name]
            if not found:
                raise UserError(f"no package has the task {name!r}; install the packages of the controller here too")
            self._works[name] = found[0].begin(self.node)
        return self._works[name].answer(arguments)


def main() -> None:
    """Run the node program of this process, and end the process."""
    output = os.dup(1)
    os.set_inheritable(output, False)
    os.dup2(2, 1)  # what plugins and libraries print is no message
    try:
        node = int(os.environ[NODE_RANK])
    except (KeyError, ValueError):
        sys.exit(f"{NODE_RANK}: expected the rank of this node, found {os.environ.get(NODE_RANK)!r}")
    program = Program(node, output)
    try:
        code = program.run()
    except UserError as error:
        print(error, file=sys.stderr, flush=True)
        code = UserError.exit_code
    sys.stderr.flush()
    os._exit(code)  # a task that hangs must not keep the process
