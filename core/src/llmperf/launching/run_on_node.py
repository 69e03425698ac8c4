"""One run on one node: its folder, its agent, and what of it the controller has."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.launching.agent_process import AgentProcess
from llmperf.launching.host import driver_here, this_host
from llmperf.launching.launchers import agent_command, of_node
from llmperf.launching.shipping import Shipper
from llmperf.links.messages import Ended, Failed, Note, Prepared, RunOrder, Start
from llmperf.measuring.processes import TAG
from llmperf.measuring.sampler import device_sampler
from llmperf.measuring.worker import plugins_of
from llmperf.plugins.facts import joined_facts
from llmperf.runfolder import filenames
from llmperf.runfolder.busy import busy_text
from llmperf.runfolder.create import create_run_folder, load_plan
from llmperf.types.plan import Plan

KEEP_SECONDS = 7 * 24 * 3600.0
"""How long a folder with records that were not delivered is kept on the node."""


class RunOnNode:
    """One run on this node: its folder, its agent, and what of it the controller has."""

    def __init__(self, order: RunOrder, node: int, send: Callable[..., bool]) -> None:
        """Make the folder, and on the first node the socket at which the ranks meet; UserError or OSError if not."""
        self._node = node
        self._send = send
        self._env = {**order.env, TAG: node_tag(order.env[TAG], node)}
        plan = json_files.decode(order.plan, Plan, "plan.json")
        self.folder = node_folder() / f"{order.run_id}-{node:03d}-{os.getpid()}"
        self._agent: AgentProcess | None = None
        self._shipper = Shipper(self.folder, node, lambda piece: send(piece, wait=False))
        self._code: int | None = None
        self._ended = False
        self._stopping: threading.Thread | None = None
        self._store: socket.socket | None = None
        plugins = plugins_of(plan)
        ports = self._listen(plan) if node == 0 and plan.layout.nodes > 1 else (0, 0)
        create_run_folder(self.folder, plan)
        self.plan = load_plan(self.folder)
        memory = filenames.memory_path(self.folder, node)
        self._sampler = device_sampler(memory, plan, plugins, order.sample_seconds, True, node)
        before = self._sampler.look()
        variables = {**plan.nodes[node].env, **of_node(plan.env, plan, node)}
        host = this_host(variables, joined_facts(plugins))
        host = replace(host, driver=driver_here(plan.vendor, plugins), load=before)
        busy = None if before is None else busy_text(before)
        json_files.save(filenames.host_path(self.folder, node), host)
        send(
            Prepared(
                node=node,
                folder=str(self.folder),
                port=ports[0],
                store_port=ports[1],
                warnings=() if busy is None else (f"{busy}; the run will be disturbed",),
            )
        )

    def _listen(self, plan: Plan) -> tuple[int, int]:
        """A free port of this node, and the port at which the agent's socket listens, both on the node's address."""
        address = plan.nodes[0].address
        try:
            family = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)[0][0]
            with socket.create_server((address, 0), family=family) as free:
                port = int(free.getsockname()[1])
            self._store = socket.create_server((address, 0), family=family, backlog=max(128, plan.layout.world_size))
        except OSError as error:
            raise UserError(
                f"cannot listen on {address}, at which the other nodes are to reach this one: {error.strerror or error}"
            ) from None
        return port, int(self._store.getsockname()[1])

    def start(self, start: Start) -> None:
        """Start the agent."""
        env = dict(self._env)
        passed: tuple[int, ...] = ()
        if self.plan.layout.nodes > 1:
            env["LLMPERF_STORE_ADDRESS"] = start.store_address
            if self._store is not None:
                env["LLMPERF_STORE_FD"] = str(self._store.fileno())
                passed = (self._store.fileno(),)
        argv = agent_command(self.folder, self.plan, self._node, start.master_address, start.master_port)
        log = filenames.agent_log_path(self.folder, self._node)
        try:
            self._agent = AgentProcess(argv, {**of_node(self.plan.env, self.plan, self._node), **env}, log, passed)
        except OSError as error:
            self._send(Failed(node=self._node, message=f"cannot start {argv[0]}: {error.strerror or error}"))
            return
        if self._store is not None:
            self._store.close()
        self._sampler.start()

    def look(self) -> None:
        """Send what is new; once the agent has ended, send the rest and its exit code."""
        if self._ended:
            return
        if self._agent is not None and self._code is None and self._stopping is None:
            self._code = self._agent.code()
            if self._code is not None:
                self.stop()
        over = self._stopping is not None and not self._stopping.is_alive()
        if self._shipper.ship(final=over) and over:
            if self._sampler.problem:
                self._send(Note(node=self._node, text=self._sampler.problem))
            killed = -int(signal.SIGKILL)
            self._send(Ended(node=self._node, code=killed if self._code is None else self._code))
            self._ended = True

    def stop(self) -> None:
        """End the agent and everything below it, in a thread, since files are sent meanwhile."""
        if self._stopping is None:
            self._stopping = threading.Thread(target=self._stop, daemon=True)
            self._stopping.start()

    def _stop(self) -> None:
        self._sampler.stop()
        if self._agent is not None:
            code = self._agent.stop()
            self._code = code if self._code is None else self._code

    def end(self, delivered: bool) -> int:
        """End everything at once. The folder is deleted if all of it was `delivered`. Returns the agent's exit code."""
        self.stop()
        if self._stopping is not None:
            self._stopping.join()
        if delivered and self._ended:
            shutil.rmtree(self.folder, ignore_errors=True)
        code = self._code if self._code is not None else 1
        return code if code >= 0 else 128 - code


def node_tag(tag: str, node: int) -> str:
    """The tag of the processes of a run on one node: two nodes may be on one machine."""
    return f"{tag}-{node}"


def node_folder() -> Path:
    """The private folder of this user for run folders, below the folder for temporary files.

    Folders that were left there KEEP_SECONDS ago are deleted. UserError if others may write to it.
    """
    folder = Path(tempfile.gettempdir()) / f"llmperf-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise UserError(f"{folder}: cannot create: {error.strerror}") from None
    if status.st_uid != os.getuid() or status.st_mode & 0o022 or folder.is_symlink():
        raise UserError(f"{folder}: expected a folder that only this user can write to; remove it or set TMPDIR")
    with suppress(OSError):
        folder.chmod(0o700)  # it may have been made by hand, readable for others
    for old in folder.iterdir():
        with suppress(OSError):
            if time.time() - old.lstat().st_mtime > KEEP_SECONDS:
                shutil.rmtree(old, ignore_errors=True)
    return folder
