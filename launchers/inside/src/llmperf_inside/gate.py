"""The first process of node 0: lets the other nodes in, starts the controller, and joins its bridges with the nodes."""

from __future__ import annotations

import itertools
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from llmperf.errors import UserError

from llmperf_inside.frames import (
    ERRORS,
    EXIT,
    FINISH,
    INPUT,
    JOIN,
    OUTPUT,
    PING,
    REFUSE,
    START,
    BadFrame,
    Connection,
    accept,
    drop,
)
from llmperf_inside.membership import WHERE, InsideOptions, Membership
from llmperf_inside.peer import LOST_SECONDS, keep_alive, reason_of
from llmperf_inside.siblings import listen_at, private_folder

HANDSHAKE_SECONDS = 10.0
MAX_STRANGERS = 64
"""Connections that may be in their handshake. More are closed at once; a node tries again."""
REPORT_SECONDS = 10.0
SEND_SECONDS = 30
LOST_EXIT_CODE = 255


@dataclass(slots=True, kw_only=True)
class Peer:
    """A node that has joined."""

    rank: int
    node: int | None
    host: str
    address: str
    connection: Connection
    lost: str | None = None
    """Reason why the connection ended; None while it lasts."""
    bridges: dict[int, Connection] = field(default_factory=dict)
    """Bridges by the number of their command."""


class Gate:
    """The nodes of the job, and the bridges of the controller."""

    def __init__(self, member: Membership, listener: socket.socket | None, secret: bytes) -> None:
        """`listener` for the other nodes; None if there are none."""
        self._member = member
        self._listener = listener
        self._secret = secret
        self._peers: dict[int, Peer] = {}
        self._changed = threading.Condition()
        self._strangers = threading.BoundedSemaphore(MAX_STRANGERS)
        self._channels = itertools.count(1)
        self._refused: list[str] = []
        self._problem: str | None = None
        self._bridges: socket.socket | None = None
        self.path = private_folder() / f"{member.key}-gate-{os.getpid()}.socket"
        if listener is not None:
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def wait_for_nodes(self, seconds: float, say: Callable[[str], None]) -> tuple[str, ...]:
        """The addresses of the other nodes in the order of their numbers; UserError if not all come."""
        wanted, began = self._member.nodes - 1, time.monotonic()
        reported = began
        with self._changed:
            while len(self._peers) < wanted or self._problem is not None:
                if self._problem is not None:
                    raise UserError(f"launcher 'inside': {self._problem}")
                now = time.monotonic()
                if now - began > seconds:
                    why = f"; refused {len(self._refused)}: {self._refused[-1]}" if self._refused else ""
                    assert self._listener is not None
                    host, port = self._listener.getsockname()[:2]
                    raise UserError(
                        f"launcher 'inside': {1 + len(self._peers)} of {wanted + 1} nodes came to {host}:{port} within"
                        f" {seconds:g} s{why}"
                    )
                if now - reported > REPORT_SECONDS:
                    reported = now
                    say(f"waiting for the other nodes: {1 + len(self._peers)} of {wanted + 1} are here")
                self._changed.wait(0.2)
            return tuple(peer.address for peer in self._ordered())

    def _ordered(self) -> list[Peer]:
        return sorted(self._peers.values(), key=lambda peer: (peer.node or 0, peer.rank))

    def open_bridges(self) -> Path:
        """Listen for bridges; returns the path of the socket."""
        self._bridges = listen_at(self.path)
        threading.Thread(target=self._accept_bridges, daemon=True).start()
        return self.path

    def finish(self, code: int) -> None:
        """Tell all nodes that the run has ended, and with which exit code."""
        if self._bridges is not None:
            self._bridges.close()
        with suppress(FileNotFoundError):
            self.path.unlink()
        if self._listener is not None:
            self._listener.close()
        for peer in list(self._peers.values()):
            with suppress(OSError):
                peer.connection.send_document(FINISH, {"code": code})
            peer.connection.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, address = listener.accept()
            except OSError:
                return
            if not self._strangers.acquire(blocking=False):
                sock.close()
                continue
            threading.Thread(target=self._meet, args=(sock, str(address[0])), daemon=True).start()

    def _meet(self, sock: socket.socket, address: str) -> None:
        """The handshake with a process that may be a node."""
        guard = threading.Timer(HANDSHAKE_SECONDS, drop, (sock,))
        guard.daemon = True
        try:
            guard.start()
            sock.settimeout(HANDSHAKE_SECONDS)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = accept(sock, self._secret)
            frame = connection.receive()
            if frame.kind != JOIN:
                raise BadFrame("an unexpected frame")
            guard.cancel()
            sock.settimeout(LOST_SECONDS)
            peer = self._join(connection, frame.document(), address)
        except (BadFrame, EOFError, OSError, KeyError, TypeError, ValueError) as error:
            guard.cancel()
            sock.close()
            with self._changed:
                self._refused = [*self._refused[-MAX_STRANGERS:], f"{address}: {reason_of(error)}"]
            return
        finally:
            self._strangers.release()
        if peer is not None:
            threading.Thread(target=keep_alive, args=(connection,), daemon=True).start()
            try:
                while True:
                    frame = peer.connection.receive()
                    bridge = peer.bridges.get(frame.channel)
                    if bridge is not None and frame.kind in (OUTPUT, ERRORS, EXIT):
                        with suppress(OSError):  # the bridge has ended
                            bridge.send(*frame)
            except (BadFrame, EOFError, OSError) as error:
                peer.lost = reason_of(error)
            peer.connection.close()
            for bridge in list(peer.bridges.values()):
                _report_loss(bridge, peer)

    def _join(self, connection: Connection, document: dict[str, object], address: str) -> Peer | None:
        """The node, if it belongs to this job."""
        member, rank = self._member, int(str(document["rank"]))
        node = None if document["node"] is None else int(str(document["node"]))
        host = str(document["host"])[:255]
        reason = None
        with self._changed:
            if (document["size"], document["local_size"]) != (member.size, member.local_size):
                reason = (
                    f"{host} has {document['local_size']} of {document['size']} processes, node 0 has"
                    f" {member.local_size} of {member.size}; start equally many on each node"
                )
            elif not 0 < rank < member.size or (node is None) != (member.node is None):
                reason = f"{host} has rank {rank} and node number {node}, which do not fit to those of node 0"
            elif any(rank == peer.rank or (node is not None and node == peer.node) for peer in self._living()):
                reason = f"{host} has rank {rank} and node number {node}, which another node has too"
            if reason is None:
                peer = Peer(rank=rank, node=node, host=host, address=address, connection=connection)
                self._peers[rank] = peer
            else:
                connection.send_document(REFUSE, {"reason": reason})
                connection.close()
                if len(self._living()) < member.nodes - 1:
                    self._problem = reason
            self._changed.notify_all()
        if reason is not None:
            return None
        connection.send(PING)
        return peer

    def _living(self) -> list[Peer]:
        return [peer for peer in self._peers.values() if peer.lost is None]

    def _accept_bridges(self) -> None:
        assert self._bridges is not None
        while True:
            try:
                sock, _ = self._bridges.accept()
            except OSError:
                return
            threading.Thread(target=self._serve_bridge, args=(Connection(sock),), daemon=True).start()

    def _serve_bridge(self, bridge: Connection) -> None:
        """Pass a bridge's command and its standard input to the node."""
        seconds = SEND_SECONDS.to_bytes(8, "little") + bytes(8)
        bridge.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, seconds)
        channel = next(self._channels)
        peer = None
        try:
            frame = bridge.receive()
            document = frame.document()
            peer = self._ordered()[int(document["node"]) - 1]
            peer.bridges[channel] = bridge
            if peer.lost is not None:
                _report_loss(bridge, peer)
                return
            peer.connection.send_document(START, {"argv": document["argv"], "env": document["env"]}, channel)
            while True:
                frame = bridge.receive()
                if frame.kind == INPUT:
                    peer.connection.send(INPUT, channel, frame.data)
        except (BadFrame, EOFError, OSError, IndexError, KeyError, TypeError, ValueError):
            pass  # the bridge has ended, or the connection with the node, which the other thread sees
        finally:
            if peer is not None:
                with suppress(OSError):
                    peer.connection.send(INPUT, channel)  # its standard input ends
                peer.bridges.pop(channel, None)
            bridge.close()


def _report_loss(bridge: Connection, peer: Peer) -> None:
    with suppress(OSError):
        bridge.send(ERRORS, 0, f"the connection with {peer.host} ({peer.address}) is lost: {peer.lost}\n".encode())
        bridge.send_document(EXIT, {"code": LOST_EXIT_CODE})


def listen(member: Membership, options: InsideOptions) -> socket.socket:
    """The socket at which the other nodes reach this one, on that address only; UserError if that is impossible."""
    name = options.address or member.address or own_address()
    try:
        family, _, _, _, address = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise UserError(f"launcher 'inside': cannot find the address of {name}: {error.strerror}") from None
    reason = ""
    ports = member.ports if options.port is None else (options.port,)
    for port in ports:
        try:
            return socket.create_server((str(address[0]), port), family=family, backlog=member.nodes + MAX_STRANGERS)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
    tried = f"port {ports[0]}" if len(ports) == 1 else f"ports {ports[0]} to {ports[-1]}"
    raise UserError(
        f"launcher 'inside': cannot listen on {address[0]} ({name}), {tried}: {reason}; set address and port in {WHERE}"
    )


def own_address() -> str:
    """The address of this node on its default route; its host name if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))  # nothing is sent
            return str(sock.getsockname()[0])
        except OSError:
            return socket.gethostname()
