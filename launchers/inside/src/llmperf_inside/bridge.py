"""The bridge to one node: `python -m llmperf_inside.bridge` runs a command there through the gate of node 0."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from contextlib import suppress

from llmperf_inside.frames import ERRORS, EXIT, INPUT, OUTPUT, START, BadFrame, Connection

GATE = "LLMPERF_INSIDE_GATE"
"""Path of the gate's socket."""
COMMAND = "LLMPERF_INSIDE_COMMAND"
"""The command as JSON: unlike arguments, other users cannot read a variable."""
LOST_EXIT_CODE = 255
CHUNK_BYTES = 1 << 17


def main() -> int:
    """Run the command; returns its exit code."""
    gate, command = os.environ[GATE], json.loads(os.environ[COMMAND])
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.connect(gate)
        connection = Connection(sock)
        connection.send_document(START, command)
        threading.Thread(target=_feed, args=(connection,), daemon=True).start()
        while True:
            frame = connection.receive()
            if frame.kind in (OUTPUT, ERRORS):
                write(1 if frame.kind == OUTPUT else 2, frame.data)
            elif frame.kind == EXIT:
                return int(frame.document()["code"])
    except (BadFrame, EOFError, OSError, KeyError, ValueError) as error:
        print(f"the process that joins the nodes has ended: {error}", file=sys.stderr)
        return LOST_EXIT_CODE


def write(descriptor: int, data: bytes) -> None:
    """Write all of it."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _feed(connection: Connection) -> None:
    with suppress(OSError):
        while data := os.read(0, CHUNK_BYTES):
            connection.send(INPUT, 0, data)
        connection.send(INPUT)


if __name__ == "__main__":
    os._exit(main())  # a thread may wait for standard input
