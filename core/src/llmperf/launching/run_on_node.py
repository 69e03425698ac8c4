"""One run on one node: its folder, its agent, and what of it the controller has."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
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
from llmperf.launching.launchers import agent_command, free_port, of_node
from llmperf.launching.shipping import Shipper
from llmperf.links.messages import Ended, Failed, Note, Prepared, RunOrder, Start
from llmperf.measuring.processes import TAG
from llmperf.measuring.sampler import device_sampler
from llmperf.measuring.worker import plugins_of
from llmperf.plugins.facts import joined_facts
from llmperf.plugins.loading import Plugins
from llmperf.runfolder import filenames
from llmperf.runfolder.create import create_run_folder, load_plan
from llmperf.runfolder.host_readings import busy_text
from llmperf.types.plan import Plan

MOST_FOLDERS = 9
"""Names of the private folder that are tried."""
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
        alone = plan.layout.nodes == 1  # the agent then has a socket of its own
        ports = (free_port(), 0) if alone else self._listen(plan) if node == 0 else (0, 0)
        create_run_folder(self.folder, plan)
        try:
            self._prepare(ports, plugins, order.sample_seconds)
        except BaseException:
            delete_run(self.folder)
            raise

    def _prepare(self, ports: tuple[int, int], plugins: Plugins, sample_seconds: float) -> None:
        """Read the host once, and tell the controller that this node is ready."""
        parent = self.folder.parent
        if node_folder() != parent:  # another run's end has deleted it, and another user has made it again
            raise UserError(f"{parent}: expected a folder that only this user can write to; remove it or set TMPDIR")
        self.plan = plan = load_plan(self.folder)
        node = self._node
        memory = filenames.memory_path(self.folder, node)
        self._sampler = device_sampler(memory, plan, plugins, sample_seconds, True, node)
        before = self._sampler.look()
        variables = {**plan.nodes[node].env, **of_node(plan.env, plan, node)}
        host = this_host(variables, joined_facts(plugins))
        host = replace(host, driver=driver_here(plan.vendor, plugins), load=before)
        busy = None if before is None else busy_text(before)
        json_files.save(filenames.host_path(self.folder, node), host)
        self._send(
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
            forced = self._code is None
            code = -int(signal.SIGKILL) if self._code is None else self._code
            self._send(Ended(node=self._node, code=code, forced=forced))
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
        """End everything at once; returns the agent's exit code.

        The folder is deleted if all of it was `delivered`, or nothing was started.
        """
        self.stop()
        if self._stopping is not None:
            self._stopping.join()
        if self._agent is None or (delivered and self._ended):
            delete_run(self.folder)
        code = self._code if self._code is not None else 1
        return code if code >= 0 else 128 - code


def node_tag(tag: str, node: int) -> str:
    """The tag of the processes of a run on one node: two nodes may be on one machine."""
    return f"{tag}-{node}"


def delete_run(folder: Path) -> None:
    """Delete the folder of a run on this node, and the folder that had it if it was the last."""
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()


def node_folder() -> Path:
    """The private folder of this user for run folders, below the folder for temporary files.

    Its name can be guessed: where another user made it, or may write to it, the next name is taken. Folders that were
    left there KEEP_SECONDS ago are deleted. UserError if none of the names can be used.
    """
    first = Path(tempfile.gettempdir()) / f"llmperf-{os.getuid()}"
    for folder in (first, *(first.with_name(f"{first.name}-{number}") for number in range(2, MOST_FOLDERS + 1))):
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            status = folder.lstat()
        except FileExistsError:
            continue
        except OSError as error:
            raise UserError(f"{folder}: cannot create: {error.strerror}") from None
        if status.st_uid == os.getuid() and stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o022:
            break
    else:
        raise UserError(f"{first}: expected a folder that only this user can write to; remove it or set TMPDIR")
    with suppress(OSError):
        folder.chmod(0o700)  # it may have been made by hand, readable for others
    for old in folder.iterdir():
        with suppress(OSError):
            if time.time() - old.lstat().st_mtime > KEEP_SECONDS:
                shutil.rmtree(old, ignore_errors=True)
    return folder
