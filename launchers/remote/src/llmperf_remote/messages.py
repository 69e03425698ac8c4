"""The lines between the controller and a node program.

Requests go to every node on standard input; messages come back on standard output with the number of their node. Each
is one line of JSON, shorter than MAX_LINE_BYTES.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterator, Mapping
from typing import TypeVar

import msgspec
from llmperf import printable
from llmperf.errors import UserError

MAX_LINE_BYTES = 2**20
"""Longer lines are refused."""
PIECE_BYTES = 256 * 1024
"""Bytes of a file in one line, before compression."""
MAX_TEXT = 1000
"""Characters of a text of a node that are shown or recorded."""
BEAT_SECONDS = 2.0
"""Interval in which the controller lets the nodes know that it is there, and they answer."""
SILENT_SECONDS = 20.0
"""A side that hears nothing of the other for this long ends what it has started."""
START = b'{"llmperf":'
"""Lines that begin otherwise are prints of other programs, such as a login banner."""


class Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="llmperf"):
    """One line."""


class Task(Line, frozen=True, kw_only=True, tag="task"):
    """Do something by name and answer, such as report what is installed."""

    number: int
    name: str
    """One of `run_on_node.answered`, or of a `NodeTask` of an extension."""
    arguments: Mapping[str, object] = {}


class Bundle(Line, frozen=True, kw_only=True, tag="bundle"):
    """One of the pieces of what a node needs for a run, all of which together are a `RunOrder`."""

    piece: int
    pieces: int
    data: str
    """Data made by `packed`."""


class RunOrder(msgspec.Struct, frozen=True, kw_only=True):
    """All that a node needs for a run."""

    run_id: str
    plan: bytes
    tag: str
    """Marks all processes of the run, with the node's rank."""
    env: Mapping[str, str]
    """Variables of the agent and its ranks that are not in the plan's file: secrets."""
    sample_seconds: float
    """Interval in which the devices of the node are read."""


class Start(Line, frozen=True, kw_only=True, tag="start"):
    """Start the agents: every node has prepared its folder."""

    master_address: str
    master_port: int
    """A port that was free there, for frameworks that listen themselves."""
    store_address: str
    """`host:port` where the first node listens for the ranks, for frameworks that take a socket."""


class Beat(Line, frozen=True, kw_only=True, tag="beat"):
    """The controller is there."""

    number: int


class Stop(Line, frozen=True, kw_only=True, tag="stop"):
    """End the ranks."""


class Done(Line, frozen=True, kw_only=True, tag="done"):
    """Everything has arrived: delete the node's folder and end."""


Request = Task | Bundle | Start | Beat | Stop | Done


class Message(Line, frozen=True, kw_only=True):
    """A line of a node."""

    node: int
    """Its rank among the nodes."""


class Hello(Message, frozen=True, kw_only=True, tag="hello"):
    """The node program runs."""

    version: str
    """Version of llmperf-core there."""


class Answer(Message, frozen=True, kw_only=True, tag="answer"):
    """The end of a task, with a result or an error."""

    number: int
    result: msgspec.Raw = msgspec.Raw()
    """Result as the task defines it; empty after an error."""
    error: str | None = None


class Prepared(Message, frozen=True, kw_only=True, tag="prepared"):
    """The node has its folder and may start its ranks."""

    folder: str
    port: int
    """On the first node: a free port, otherwise 0. The only node of a run has one of its loopback interface."""
    store_port: int
    """On the first of several nodes: the port of the socket at which the ranks meet, otherwise 0."""
    warnings: tuple[str, ...] = ()


class Echo(Message, frozen=True, kw_only=True, tag="echo"):
    """The answer to a beat."""

    number: int
    at: float
    """The node's wall clock, in seconds since the epoch."""


class Piece(Message, frozen=True, kw_only=True, tag="piece"):
    """Bytes of a file in the run folder."""

    file: str
    offset: int
    """Offset of the bytes. 0 replaces the file."""
    data: str
    """Data made by `packed`."""


class Note(Message, frozen=True, kw_only=True, tag="note"):
    """Something that a reader of the result should know; it does not end the run."""

    text: str


class Failed(Message, frozen=True, kw_only=True, tag="failed"):
    """The node cannot do what it was asked for."""

    message: str


class Ended(Message, frozen=True, kw_only=True, tag="ended"):
    """The agent has ended, and all that it has written was sent."""

    code: int
    forced: bool = False
    """The node program had to kill it, since it did not end when it was asked to."""


AnyMessage = Hello | Answer | Prepared | Echo | Piece | Note | Failed | Ended

_encode = msgspec.json.Encoder().encode
_requests: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
_messages: msgspec.json.Decoder[AnyMessage] = msgspec.json.Decoder(AnyMessage)
_orders = msgspec.json.Decoder(RunOrder)
T = TypeVar("T")


def line_of(line: Line) -> bytes:
    """The bytes of a line."""
    return _encode(line) + b"\n"


def request_of(line: bytes) -> Request:
    """A line as a request; UserError if it is none."""
    return _decoded(_requests, line, "request of the controller")


def message_of(line: bytes, where: str) -> AnyMessage:
    """A line as a message; UserError that names `where` if it is none."""
    return _decoded(_messages, line, where)


def _decoded(decoder: msgspec.json.Decoder[T], line: bytes, where: str) -> T:
    try:
        return decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"{where}: {error}") from None


def short(text: str) -> str:
    """Text of a node as one printable line of bounded length."""
    return " ".join(printable(text[: 4 * MAX_TEXT], " ").split())[:MAX_TEXT]


def packed(data: bytes) -> str:
    """Compressed bytes as text for `Piece.data` and `Bundle.data`."""
    return base64.b64encode(zlib.compress(data, 1)).decode()


def unpacked(text: str, where: str) -> bytes:
    """The bytes that `packed` has compressed, at most PIECE_BYTES; UserError that names `where` for anything else."""
    try:
        decoder = zlib.decompressobj()
        data = decoder.decompress(base64.b64decode(text, validate=True), PIECE_BYTES)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise UserError(f"{where}: {error}") from None
    if not decoder.eof:
        raise UserError(f"{where}: expected at most {PIECE_BYTES} bytes")
    return data


def bundles(order: RunOrder) -> Iterator[Bundle]:
    """An order as lines."""
    data = _encode(order)
    pieces = [data[start : start + PIECE_BYTES] for start in range(0, len(data), PIECE_BYTES)]
    for number, piece in enumerate(pieces):
        yield Bundle(piece=number, pieces=len(pieces), data=packed(piece))


def order_of(pieces: bytes) -> RunOrder:
    """The order that the unpacked bundles hold together; UserError if it is none."""
    return _decoded(_orders, pieces, "request of the controller")
