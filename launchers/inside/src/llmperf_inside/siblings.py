"""The processes of one node: that with local rank 0 serves, the others wait and end with its exit code."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from llmperf.errors import UserError

from llmperf_inside.frames import EXIT, JOIN, BadFrame, Connection
from llmperf_inside.membership import Membership

MOST_FOLDERS = 9
"""Names of the private folder that are tried."""
MAX_PATH_BYTES = 100
"""Linux allows 107 for the path of a socket."""
RETRY_SECONDS = 0.1
JOIN_SECONDS = 10.0


def private_folder() -> Path:
    """The folder of this user for sockets, under the first guessable name that no other user has; UserError without."""
    for parent in (Path(tempfile.gettempdir()), Path("/tmp")):
        folder = parent / f"llmperf-inside-{os.getuid()}"
        if len(str(folder)) + 50 < MAX_PATH_BYTES:
            break
    for place in (folder, *(folder.with_name(f"{folder.name}-{number}") for number in range(2, MOST_FOLDERS + 1))):
        try:
            place.mkdir(mode=0o700, exist_ok=True)
            status = place.lstat()
        except FileExistsError:
            continue
        except OSError as error:
            raise UserError(f"{place}: cannot create: {error.strerror}") from None
        if status.st_uid == os.getuid() and stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o077:
            return place
    raise UserError(f"{folder}: expected a folder that only this user can use; remove it")


def listen_at(path: Path) -> socket.socket:
    """A listening Unix socket; the left-over of a process that has ended is replaced. UserError if one is in use."""
    if path.exists():
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(JOIN_SECONDS)
            try:
                probe.connect(str(path))
            except OSError:
                with suppress(FileNotFoundError):
                    path.unlink()
            else:
                raise UserError("launcher 'inside': another process with the same rank is running on this node")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(1024)
    return listener


class Leader:
    """The process with local rank 0, and its connections with the others of this node."""

    def __init__(self, member: Membership, seconds: float) -> None:
        """Wait for the others, and use the cores of all; UserError if they do not come or are not alike."""
        self._others: dict[int, Connection] = {}
        if member.local_size == 1:
            return
        path = _path(member)
        cpus = _cpus()
        deadline = time.monotonic() + seconds
        with listen_at(path) as listener:
            try:
                while len(self._others) < member.local_size - 1:
                    listener.settimeout(max(0.01, deadline - time.monotonic()))
                    try:
                        sock, _ = listener.accept()
                    except TimeoutError:
                        raise UserError(
                            f"launcher 'inside': {len(self._others) + 1} of {member.local_size} processes of this node"
                            f" came within {seconds:g} s; run the same command in each, or start one process per node"
                        ) from None
                    cpus |= self._join(Connection(sock), member)
            except BaseException:
                self.finish(2)
                raise
            finally:
                with suppress(FileNotFoundError):
                    path.unlink()
        if hasattr(os, "sched_setaffinity"):
            with suppress(OSError):  # the engine may have bound each process to some of the cores
                os.sched_setaffinity(0, cpus)

    def _join(self, connection: Connection, member: Membership) -> set[int]:
        """Greet one process; returns the cores that it may use."""
        connection.socket.settimeout(JOIN_SECONDS)
        try:
            document = connection.receive().document()
            local_rank, cpus = int(document["local_rank"]), {int(cpu) for cpu in document["cpus"]}
            alike = (document["size"], document["local_size"]) == (member.size, member.local_size)
        except (BadFrame, EOFError, OSError, KeyError, TypeError, ValueError):
            connection.close()
            return set()
        if not alike or local_rank in self._others or not 0 < local_rank < member.local_size:
            raise UserError(
                f"variables of {member.engine}: two processes of this node have local rank {local_rank}"
                if alike
                else f"variables of {member.engine}: processes of this node differ in the numbers of processes"
            )
        self._others[local_rank] = connection
        return cpus

    def finish(self, code: int) -> None:
        """Give the others the exit code."""
        for connection in self._others.values():
            with suppress(OSError):
                connection.send_document(EXIT, {"code": code})
            connection.close()
        self._others.clear()


def follow(member: Membership, seconds: float) -> int:
    """Wait until the process with local rank 0 has ended, and return its exit code; 1 if it was lost."""
    path = _path(member)
    deadline = time.monotonic() + seconds
    while True:
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(str(path))
            break
        except OSError:
            sock.close()
        if time.monotonic() > deadline:
            raise UserError(
                f"launcher 'inside': the process with local rank 0 of this node did not come within {seconds:g} s"
            )
        time.sleep(RETRY_SECONDS)
    connection = Connection(sock)
    document = {"size": member.size, "local_size": member.local_size, "local_rank": member.local_rank}
    try:
        connection.send_document(JOIN, {**document, "cpus": sorted(_cpus())})
        return int(connection.receive().document()["code"])
    except (BadFrame, EOFError, OSError, KeyError, TypeError, ValueError):
        return 1
    finally:
        connection.close()


def _path(member: Membership) -> Path:
    """The socket of this node's first process. Two nodes of a test may be on one machine."""
    return private_folder() / f"{member.key}-{'' if member.node is None else member.node}.socket"


def _cpus() -> set[int]:
    return set(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else set()
