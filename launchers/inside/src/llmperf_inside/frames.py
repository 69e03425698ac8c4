"""Frames over a socket: plain between processes of one user on one machine, authenticated between machines.

Two peers that know the same secret prove it to each other (HMAC-SHA256 of both sides' random challenges). Each then
derives one key for each direction. Every frame carries the HMAC of its number and content, so that a changed, left out,
repeated or foreign frame ends the connection. Frames are not encrypted.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import struct
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

MAGIC = b"llmperf-inside-1\n"
CHALLENGE_BYTES = 32
MAC_BYTES = 32
MAX_DATA_BYTES = 1 << 18
"""Largest size of one frame. Longer data goes in several."""
MAX_TEXT_BYTES = 1 << 20
"""Largest size of one JSON document in a frame."""
HEADER = struct.Struct("!BII")
COUNTER = struct.Struct("!Q")

JOIN, REFUSE, START, INPUT, OUTPUT, ERRORS, EXIT, PING, FINISH = range(1, 10)
"""Kinds of frames. INPUT, OUTPUT and ERRORS without data mark the end of a stream."""


class BadFrame(Exception):
    """The other side is not the expected one, or does not follow the protocol."""


class Frame(NamedTuple):
    """One frame."""

    kind: int
    channel: int
    """The command that it belongs to; 0 if none."""
    data: bytes

    def document(self) -> dict[str, Any]:
        """The JSON object in it; BadFrame if there is none."""
        try:
            document = json.loads(self.data)
        except (ValueError, RecursionError):  # also nested too deeply
            raise BadFrame("a frame without JSON") from None
        if not isinstance(document, dict):
            raise BadFrame("a frame without a JSON object")
        return document


class Connection:
    """Frames in both directions; any thread may send, one thread receives."""

    def __init__(self, sock: socket.socket, keys: tuple[bytes, bytes] | None = None) -> None:
        """`keys` for sending and receiving; None without authentication."""
        self.socket = sock
        self._keys = keys
        self._sent = self._received = 0
        self._lock = threading.Lock()

    def send(self, kind: int, channel: int = 0, data: bytes = b"") -> None:
        """Send one frame; OSError if the connection has ended."""
        with self._lock:
            head = HEADER.pack(kind, channel, len(data))
            mac = b""
            if self._keys is not None:
                mac = _mac(self._keys[0], COUNTER.pack(self._sent), head, data)
                self._sent += 1
            self.socket.sendall(head + data + mac)

    def send_document(self, kind: int, document: Mapping[str, Any], channel: int = 0) -> None:
        """Send a JSON object."""
        self.send(kind, channel, json.dumps(document).encode())

    def send_stream(self, kind: int, channel: int, data: bytes) -> None:
        """Send data of any length."""
        for start in range(0, len(data), MAX_DATA_BYTES):
            self.send(kind, channel, data[start : start + MAX_DATA_BYTES])

    def receive(self) -> Frame:
        """The next frame; EOFError at the end, BadFrame for a wrong one, OSError if the connection has ended."""
        head = read_exactly(self.socket, HEADER.size)
        kind, channel, size = HEADER.unpack(head)
        if size > (MAX_TEXT_BYTES if kind in (JOIN, START, REFUSE) else MAX_DATA_BYTES):
            raise BadFrame(f"a frame of {size} bytes")
        data = read_exactly(self.socket, size)
        if self._keys is not None:
            mac = read_exactly(self.socket, MAC_BYTES)
            if not hmac.compare_digest(mac, _mac(self._keys[1], COUNTER.pack(self._received), head, data)):
                raise BadFrame("a frame that is changed, repeated, or not from the other side")
            self._received += 1
        return Frame(kind, channel, data)

    def close(self) -> None:
        """End the connection, also for a thread that receives."""
        drop(self.socket)


def accept(sock: socket.socket, secret: bytes) -> Connection:
    """The listening side of the handshake; BadFrame, EOFError or OSError if the other side does not know the secret."""
    if read_exactly(sock, len(MAGIC)) != MAGIC:
        raise BadFrame("another protocol")
    theirs, ours = read_exactly(sock, CHALLENGE_BYTES), secrets.token_bytes(CHALLENGE_BYTES)
    sock.sendall(MAGIC + ours + _mac(secret, b"listener", theirs, ours))
    try:
        proof = read_exactly(sock, MAC_BYTES)
    except EOFError:
        raise BadFrame("another secret, since it ended the handshake") from None
    if not hmac.compare_digest(proof, _mac(secret, b"caller", theirs, ours)):
        raise BadFrame("another secret")
    return Connection(sock, (_mac(secret, b"down", theirs, ours), _mac(secret, b"up", theirs, ours)))


def call(sock: socket.socket, secret: bytes) -> Connection:
    """The calling side of the handshake; BadFrame, EOFError or OSError if the other side does not know the secret."""
    ours = secrets.token_bytes(CHALLENGE_BYTES)
    sock.sendall(MAGIC + ours)
    if read_exactly(sock, len(MAGIC)) != MAGIC:
        raise BadFrame("another protocol")
    theirs = read_exactly(sock, CHALLENGE_BYTES)
    if not hmac.compare_digest(read_exactly(sock, MAC_BYTES), _mac(secret, b"listener", ours, theirs)):
        raise BadFrame("another secret")
    sock.sendall(_mac(secret, b"caller", ours, theirs))
    return Connection(sock, (_mac(secret, b"up", ours, theirs), _mac(secret, b"down", ours, theirs)))


def read_exactly(sock: socket.socket, count: int) -> bytes:
    """That many bytes; EOFError if the other side ends before."""
    data = bytearray()
    while len(data) < count:
        piece = sock.recv(count - len(data))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


def drop(sock: socket.socket) -> None:
    """Close a socket, also for another thread that waits at it."""
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()


def _mac(key: bytes, *parts: bytes) -> bytes:
    """The HMAC of some parts; all but the last have a fixed length for each use."""
    return hmac.digest(key, b"".join(parts), "sha256")
