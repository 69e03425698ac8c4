"""One run on one node: its folder, its agent, and what of it the controller has; and what an earlier run left."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from llmperf.errors import UserError
from llmperf.launching import left_of_run, node_run, sweep

from llmperf_remote.messages import Ended, Failed, Note, Prepared, RunOrder, Start
from llmperf_remote.shipping import Shipper

MOST_FOLDERS = 9
"""Names of the private folder that are tried."""
KEEP_SECONDS = 7 * 24 * 3600.0
"""Time for which a folder with records that were not delivered is kept on the node."""


class RunOnNode:
    """One run on this node: what of it the controller has, and the socket at which its ranks meet."""

    def __init__(self, order: RunOrder, node: int, send: Callable[..., bool]) -> None:
        """Make the folder, and on the first node the socket; UserError or OSError if not."""
        self._node, self._env, self._send = node, order.env, send
        folder = node_folder() / f"{order.run_id}-{node:03d}-{os.getpid()}"
        self._shipper = Shipper(folder, node, lambda piece: send(piece, wait=False))
        self._code: int | None = None
        self._started = self._ended = False
        self._stopping: threading.Thread | None = None
        self._store: socket.socket | None = None
        try:
            self.run = node_run(order.plan, folder, node, f"{order.tag}-{node}", order.sample_seconds)
            if node_folder() != folder.parent:  # another run's end has deleted it, and another user has made it again
                raise UserError(f"{folder.parent}: expected a folder that only this user can write to; remove it or "
                                "set TMPDIR")  # fmt: skip
            busy = self.run.look()
            port, store_port = self._ports()
        except BaseException:
            delete_run(folder)
            raise
        warnings = () if busy is None else (busy,)
        send(Prepared(node=node, folder=str(folder), port=port, store_port=store_port, warnings=warnings))

    def _ports(self) -> tuple[int, int]:
        """On the first node a free port, and the port at which the agent's socket listens, both on its address."""
        plan, alone = self.run.plan, self.run.plan.layout.nodes == 1  # the only agent has a socket of its own
        if self._node > 0:
            return 0, 0
        address = "127.0.0.1" if alone else plan.nodes[0].address
        try:
            family = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)[0][0]
            with socket.create_server((address, 0), family=family) as free:
                port = int(free.getsockname()[1])
            if alone:
                return port, 0
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
        if self.run.plan.layout.nodes > 1:
            env["LLMPERF_STORE_ADDRESS"] = start.store_address
            if self._store is not None:
                env["LLMPERF_STORE_FD"] = str(self._store.fileno())
                passed = (self._store.fileno(),)
        self.run.meet(start.master_address, env, start.master_port, passed)
        try:
            self.run.start()
            self._started = True
        except UserError as error:
            self._send(Failed(node=self._node, message=str(error)))
            return
        if self._store is not None:
            self._store.close()

    def look(self) -> None:
        """Send what is new; once the agent has ended, send the rest and its exit code."""
        if self._ended:
            return
        if self._started and self._code is None and self._stopping is None:
            (self._code,) = self.run.codes()
            if self._code is not None:
                self.stop()
        over = self._stopping is not None and not self._stopping.is_alive()
        if self._shipper.ship(final=over) and over:
            if (problem := self.run.close()) is not None:
                self._send(Note(node=self._node, text=problem))
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
        self.run.close()
        codes = self.run.stop()
        self._code = codes[0] if codes and self._code is None else self._code

    def end(self, delivered: bool) -> int:
        """End everything at once and, once all is `delivered`, delete the folder; the agent's exit code."""
        self.stop()
        if self._stopping is not None:
            self._stopping.join()
        if not self._started or (delivered and self._ended):
            delete_run(self.run.folder)
        code = self._code if self._code is not None else 1
        return code if code >= 0 else 128 - code


def delete_run(folder: Path) -> None:
    """Delete the folder of a run on this node, and the folder that had it if it was the last."""
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()


def node_folder() -> Path:
    """This user's private folder for run folders, under the first guessable name that no other user has."""
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


def leftovers(node: int, send: Callable[..., bool], arguments: Mapping[str, Any]) -> Path | None:
    """Send the files of run `run_id` that the controller lacks by `sizes`; its processes end first.

    Returns their folder, to be deleted when the controller has them; None if there is none.
    """
    run_id, tag, parent = str(arguments["run_id"]), arguments.get("tag"), node_folder()
    if tag is not None:
        sweep(f"{tag}-{node}")
    elif left_of_run(run_id):
        raise UserError("expected a run that has ended, found processes of it")
    folders = [folder for folder in parent.iterdir() if folder.name.startswith(f"{run_id}-{node:03d}-")]
    for folder in folders[:1]:  # a node program makes one
        # kill the node program that made a folder, if it is still there: it may be stopped
        with suppress(OSError, ValueError, IndexError):
            pid = int(folder.name.rpartition("-")[2])
            ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
            started = (
                time.time() - float(Path("/proc/uptime").read_text().split()[0]) + ticks / os.sysconf("SC_CLK_TCK")
            )
            made = (folder / "plan.json").stat().st_mtime
            if started <= made + 1 and b"llmperf_remote.node" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
        Shipper(folder, node, send, arguments["sizes"]).ship(final=True)
    return folders[0] if folders else None
