"""Runs a vendor's command-line tool with limits on time and output, since its output is not trusted."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any

from llmperf import printable

MAX_BYTES = 2**20
BLOCK = 2**16
MAX_REASON = 200
MAX_SHOWN = 80
"""Characters of the output that an error quotes."""


def tool_output(argv: Sequence[str], *, seconds: float = 20.0, max_bytes: int = MAX_BYTES) -> str:
    """The standard output of a command, found on PATH and run without a shell and without input.

    OSError, one line, if it is not installed (FileNotFoundError), cannot be run, exits with another code than 0,
    prints more than `max_bytes` on either stream, or takes more than `seconds`; its child processes are killed with
    it. Letters that are not printable, such as escape sequences, become `?`.
    """
    name = os.path.basename(argv[0])
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},
            start_new_session=True,
        )
    except FileNotFoundError:
        raise FileNotFoundError(f"{name} is not installed") from None
    except OSError as error:
        raise OSError(f"{name} cannot be run: {error.strerror}") from None
    try:
        printed, complaints = _read(process, name, time.monotonic() + seconds, seconds, max_bytes)
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
    if process.returncode:
        raise OSError(f"{name}: {_reason(complaints) or _reason(printed) or f'exit code {process.returncode}'}")
    return _printable(printed)


def json_output(argv: Sequence[str], *, seconds: float = 20.0, max_bytes: int = MAX_BYTES) -> Any:
    """The JSON document that a command prints, after any warnings before it.

    OSError, one line, as of `tool_output`, and for output that is no JSON.
    """
    printed = tool_output(argv, seconds=seconds, max_bytes=max_bytes)
    lines = printed.splitlines()
    start = next((number for number, line in enumerate(lines) if line.lstrip()[:1] in ("{", "[")), len(lines))
    try:
        return json.loads("\n".join(lines[start:]))
    except (ValueError, RecursionError):
        raise OSError(f"{os.path.basename(argv[0])}: expected JSON, found {printed[:MAX_SHOWN]!r}") from None


def _read(
    process: subprocess.Popen[bytes], name: str, deadline: float, seconds: float, max_bytes: int
) -> tuple[bytes, bytes]:
    """Everything on both streams, until the process has ended."""
    assert process.stdout is not None
    assert process.stderr is not None
    printed: dict[IO[bytes], bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
    with selectors.DefaultSelector() as selector:
        for stream in printed:
            selector.register(stream, selectors.EVENT_READ, stream)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise OSError(f"{name} gave no answer in {seconds:g} s")
            for key, _ in ready:
                block = os.read(key.fd, BLOCK)
                printed[key.data] += block
                if not block:
                    selector.unregister(key.fileobj)
                if len(printed[key.data]) > max_bytes:
                    raise OSError(f"{name} printed more than the {max_bytes} bytes that are read")
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise OSError(f"{name} gave no answer in {seconds:g} s") from None
    return bytes(printed[process.stdout]), bytes(printed[process.stderr])


def _reason(printed: bytes) -> str:
    """The first line that is not empty."""
    lines = (line.strip() for line in _printable(printed).splitlines())
    return next((line for line in lines if line), "")[:MAX_REASON]


def _printable(printed: bytes) -> str:
    text = printed.decode("utf-8", errors="replace").replace("\r\n", "\n")
    return printable(text, "?", keep="\n\t")
