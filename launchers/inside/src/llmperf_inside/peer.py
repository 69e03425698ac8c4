"""The first process of every node but node 0: joins node 0, and runs the commands that come from there."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import SimpleQueue
from typing import IO

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
    Frame,
    call,
)
from llmperf_inside.membership import InsideOptions, Membership
from llmperf_inside.secret import NAME, meeting_file, read_meeting, secret_of

CONNECT_SECONDS = 10.0
RETRY_SECONDS = 0.3
PING_SECONDS = 5.0
LOST_SECONDS = 30.0
"""A connection without any frame for so long is lost: each side sends a PING every PING_SECONDS."""
END_SECONDS = 10.0
"""Time for a command to end after its standard input has."""
CHUNK_BYTES = 1 << 18


class Command:
    """A command of the controller as a process on this node."""

    def __init__(self, connection: Connection, channel: int, frame: Frame, env: Mapping[str, str]) -> None:
        """OSError if it cannot be started, BadFrame for a wrong request."""
        document = frame.document()
        argv, own = document.get("argv"), document.get("env")
        if not isinstance(argv, list) or not argv or not isinstance(own, dict):
            raise BadFrame("a command that is none")
        self._connection, self._channel = connection, channel
        self._input: SimpleQueue[bytes] = SimpleQueue()
        self.process = subprocess.Popen(
            [str(word) for word in argv],
            env={**env, **{str(name): str(value) for name, value in own.items()}},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        for work in (self._write, self._report):
            threading.Thread(target=work, daemon=True).start()

    def write(self, data: bytes) -> None:
        """Data for its standard input; none ends it."""
        self._input.put(data)

    def _write(self) -> None:
        stdin = self.process.stdin
        assert stdin is not None
        with suppress(OSError):
            while data := self._input.get():
                view = memoryview(data)
                while view:
                    view = view[stdin.write(view) or 0 :]
        with suppress(OSError):
            stdin.close()

    def _report(self) -> None:
        """Send its output and its exit code."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        errors = threading.Thread(target=self._send, args=(ERRORS, self.process.stderr), daemon=True)
        errors.start()
        self._send(OUTPUT, self.process.stdout)
        code = self.process.wait()
        errors.join(END_SECONDS)
        with suppress(OSError):
            self._connection.send_document(EXIT, {"code": code if code >= 0 else 128 - code}, self._channel)

    def _send(self, kind: int, stream: IO[bytes]) -> None:
        with suppress(OSError):
            while data := os.read(stream.fileno(), CHUNK_BYTES):
                self._connection.send_stream(kind, self._channel, data)

    def end(self) -> None:
        """Wait for the process, whose standard input has ended, and kill its group if it does not end."""
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            with suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def join(
    member: Membership, options: InsideOptions, out: str, env: Mapping[str, str], say: Callable[[str], None]
) -> Connection:
    """The connection with node 0; UserError if there is none within the time."""
    path, secret = meeting_file(out, member.key), secret_of(env)
    deadline = time.monotonic() + options.timeout_seconds
    reason = ""
    address = options.address or member.address
    ports = member.ports if options.port is None else (options.port,)
    known = () if address is None else tuple((address, port) for port in ports)
    waiting = False
    while True:
        meeting = read_meeting(path, secret)
        targets = [] if meeting is None else [(meeting.secret, *target) for target in (*meeting.addresses, *known)]
        for run_secret, host, port in dict.fromkeys(targets):
            try:
                sock = socket.create_connection((host, port), CONNECT_SECONDS)
                try:
                    connection = call(sock, run_secret)
                    sock.settimeout(LOST_SECONDS)
                    document = {
                        "rank": member.rank,
                        "size": member.size,
                        "local_size": member.local_size,
                        "node": member.node,
                    }
                    connection.send_document(JOIN, {**document, "host": socket.gethostname()})
                    frame = connection.receive()
                except BaseException:
                    sock.close()
                    raise
                if frame.kind == REFUSE:
                    connection.close()
                    raise UserError(f"launcher 'inside': node 0 refuses this process: {frame.document().get('reason')}")
                if frame.kind != PING:
                    connection.close()
                    raise BadFrame("an unexpected answer")
                return connection
            except UserError:
                raise
            except (BadFrame, EOFError, OSError) as error:
                if not reason or isinstance(error, BadFrame):  # the wrong secret says more than a later refusal
                    reason = f"{host}:{port}: {reason_of(error)}"
        if time.monotonic() > deadline:
            break
        if not waiting:
            say(f"waiting for node 0 at {address or 'the address that it writes to ' + str(path)}")
            waiting = True
        time.sleep(RETRY_SECONDS)
    if meeting is None and not reason:
        raise UserError(
            f"launcher 'inside': no secret to join node 0 with: set {NAME} to the same random text on all nodes, or"
            f" name a folder with --out that all nodes share"
        )
    if not reason:
        raise UserError("launcher 'inside': the address of node 0 is not known: set MASTER_ADDR on all nodes")
    raise UserError(f"launcher 'inside': node 0 did not answer within {options.timeout_seconds:g} s: {reason}")


def serve(connection: Connection, env: Mapping[str, str], say: Callable[[str], None]) -> int:
    """Run the commands of node 0 until it says that the run has ended; returns the exit code of the run."""
    commands: dict[int, Command] = {}
    threading.Thread(target=keep_alive, args=(connection,), daemon=True).start()
    try:
        while True:
            frame = connection.receive()
            if frame.kind == START:
                try:
                    commands[frame.channel] = Command(connection, frame.channel, frame, env)
                except OSError as error:
                    text = f"cannot start the node program: {error.strerror}\n"
                    connection.send(ERRORS, frame.channel, text.encode())
                    connection.send_document(EXIT, {"code": 127}, frame.channel)
            elif frame.kind == INPUT and frame.channel in commands:
                commands[frame.channel].write(frame.data)
            elif frame.kind == FINISH:
                return int(frame.document().get("code", 1))
    except (BadFrame, EOFError, OSError) as error:
        say(f"the connection with node 0 has ended: {reason_of(error)}")
        return 1
    finally:
        for command in commands.values():
            command.write(b"")
        for command in commands.values():
            command.end()
        connection.close()


def reason_of(error: Exception) -> str:
    """Reason why a connection ended."""
    if isinstance(error, EOFError):
        return "the other side has closed it"
    if isinstance(error, TimeoutError):
        return "timed out"
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def keep_alive(connection: Connection) -> None:
    """Send a PING now and then until the connection ends."""
    with suppress(OSError):
        while True:
            connection.send(PING)
            time.sleep(PING_SECONDS)
