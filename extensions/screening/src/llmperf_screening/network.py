"""Connections between nodes: a port that takes only this screening's nodes, latency and transfers."""

from __future__ import annotations

import hmac
import itertools
import math
import socket
import statistics
import threading
import time
from contextlib import suppress

from llmperf.errors import UserError

from llmperf_screening.stages import Contact, Peer

CONNECT_SECONDS = 3.0
TRANSFER_SECONDS = 0.5
"""Time that each side sends."""
DRAIN_SECONDS = 1.0
"""Further time for which the receiver reads what is on its way."""
PINGS = 20
CHUNK = bytes(2**18)
MAX_GREETING_BYTES = 200
MAX_CONNECTIONS = 256
IP_MTU = 14
"""Socket option of Linux: the path MTU of a connected socket."""


class Listener:
    """A port of this node for the other nodes of one screening, whose connections begin with the secret."""

    def __init__(self, address: str, secret: str) -> None:
        """Listen on this address only; UserError if that fails."""
        self._secret = secret
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            self._socket = socket.create_server((address, 0), family=family, backlog=128)
        except OSError as error:
            raise UserError(f"cannot listen on {address}: {error.strerror or error}") from None
        self.port: int = self._socket.getsockname()[1]
        self._waiting: dict[str, socket.socket] = {}
        self._changed = threading.Condition()
        self._greeting: dict[int, socket.socket] = {}
        """Connections whose greeting is not complete, oldest first."""
        self._numbers = itertools.count()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        with suppress(OSError):
            self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            number = next(self._numbers)
            with self._changed:
                if len(self._greeting) >= MAX_CONNECTIONS:  # nodes greet at once
                    oldest = self._greeting.pop(next(iter(self._greeting)))
                    with suppress(OSError):
                        oldest.shutdown(socket.SHUT_RDWR)  # its thread closes it
                self._greeting[number] = connection
            threading.Thread(target=self._greet, args=(connection, number), daemon=True).start()

    def _greet(self, connection: socket.socket, number: int) -> None:
        """Check the secret; echo bytes for `ping`, and keep other connections for `taken`."""
        try:
            greeting = _line(connection, CONNECT_SECONDS)
            with self._changed:
                self._greeting.pop(number, None)
            connection.settimeout(CONNECT_SECONDS)
            secret, _, purpose = greeting.partition(" ")
            if not hmac.compare_digest(secret.encode(), self._secret.encode()):
                connection.close()
            elif purpose == "ping":
                with connection:
                    while data := connection.recv(1):
                        connection.sendall(data)
            else:
                with self._changed:
                    if len(self._waiting) >= MAX_CONNECTIONS or purpose in self._waiting:
                        connection.close()
                        return
                    self._waiting[purpose] = connection
                    self._changed.notify_all()
        except OSError:
            connection.close()
        finally:
            with self._changed:
                self._greeting.pop(number, None)

    def taken(self, purpose: str, seconds: float) -> socket.socket | None:
        """The connection that a node has opened for a purpose; None if none comes in time."""
        with self._changed:
            self._changed.wait_for(lambda: purpose in self._waiting, seconds)
            return self._waiting.pop(purpose, None)


def free_port(address: str) -> int:
    """A port of this node at which nothing listens."""
    with socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET) as server:
        port: int = server.getsockname()[1]
        return port


def _connected(peer: Peer, own_address: str, secret: str, purpose: str) -> socket.socket:
    """A connection to a node from this node's own address."""
    connection = socket.create_connection((peer.address, peer.port), CONNECT_SECONDS, source_address=(own_address, 0))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(f"{secret} {purpose}\n".encode())
    return connection


def contact(rank: int, peer: Peer, own_address: str, secret: str) -> Contact:
    """Check whether a node can be reached, and how long a byte takes there and back."""
    try:
        with _connected(peer, own_address, secret, "ping") as connection:
            durations = []
            for _ in range(PINGS):
                start = time.perf_counter()
                connection.sendall(b".")
                if not connection.recv(1):
                    return Contact(peer=rank, problem="closed the connection")
                durations.append(time.perf_counter() - start)
            return Contact(peer=rank, latency_seconds=statistics.median(durations))
    except OSError as error:
        return Contact(peer=rank, problem=_reason(error))


def _reason(error: OSError) -> str:
    return "timed out" if isinstance(error, TimeoutError) else (error.strerror or str(error)).lower()


def transfer_as_client(rank: int, peer: Peer, own_address: str, secret: str, number: int, own_rank: int) -> Contact:
    """Send to a node, then receive from it, each for TRANSFER_SECONDS."""
    try:
        with _connected(peer, own_address, secret, f"transfer {number} {own_rank}") as connection:
            _send(connection)
            sent = float(_line(connection, TRANSFER_SECONDS + DRAIN_SECONDS + CONNECT_SECONDS))
            if not 0 <= sent < math.inf:
                raise ValueError("no rate")
            mtu = None
            if connection.family == socket.AF_INET:
                with suppress(OSError):
                    mtu = connection.getsockopt(socket.IPPROTO_IP, IP_MTU) or None
        with _connected(peer, own_address, secret, f"return {number} {own_rank}") as connection:
            received = _receive(connection)
    except (OSError, ValueError) as error:
        problem = _reason(error) if isinstance(error, OSError) else "the transfer was cut off"
        return Contact(peer=rank, problem=problem)
    return Contact(peer=rank, sent_bytes_per_second=sent, received_bytes_per_second=received, path_mtu=mtu)


def transfer_as_server(listener: Listener, rank: int, number: int) -> Contact:
    """The other end of `transfer_as_client`. The client reports the figures."""
    wait = 2 * CONNECT_SECONDS + TRANSFER_SECONDS + DRAIN_SECONDS
    connection = listener.taken(f"transfer {number} {rank}", wait)
    if connection is None:
        return Contact(peer=rank, problem="did not connect")
    try:
        with connection:
            rate = _receive(connection)
            connection.settimeout(CONNECT_SECONDS)
            connection.sendall(f"{rate:.0f}\n".encode())
        connection = listener.taken(f"return {number} {rank}", wait)
        if connection is None:
            return Contact(peer=rank, problem="did not connect")
        with connection:
            _send(connection)
    except OSError as error:
        return Contact(peer=rank, problem=_reason(error))
    return Contact(peer=rank)


def _send(connection: socket.socket) -> None:
    """Send for TRANSFER_SECONDS, and say that this is all."""
    deadline = time.monotonic() + TRANSFER_SECONDS
    with suppress(TimeoutError):  # the buffers are full when the time is over
        while (left := deadline - time.monotonic()) > 0:
            connection.settimeout(left)
            connection.send(CHUNK)
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)


def _receive(connection: socket.socket) -> float:
    """Bytes per second until the other side has sent all, or for TRANSFER_SECONDS and DRAIN_SECONDS at most."""
    buffer = bytearray(len(CHUNK))
    began = last = time.monotonic()
    deadline = began + TRANSFER_SECONDS + DRAIN_SECONDS
    count = 0
    with suppress(TimeoutError):
        while (left := deadline - time.monotonic()) > 0:
            connection.settimeout(left)
            size = connection.recv_into(buffer)
            if size == 0:
                break
            count += size
            last = time.monotonic()
    return count / (last - began) if last > began else 0.0


def _line(connection: socket.socket, seconds: float) -> str:
    """A short line, all of it within the time; TimeoutError if it takes longer."""
    deadline = time.monotonic() + seconds
    data = b""
    while not data.endswith(b"\n") and len(data) < MAX_GREETING_BYTES:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        byte = connection.recv(1)
        if not byte:
            break
        data += byte
    return data.decode(errors="replace").strip()
