"""Run a command, pass its output through, and stamp each line with our clock as it arrives."""

from __future__ import annotations

import codecs
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from llmperf import printable
from llmperf.errors import Terminated, UserError

MAX_LOG_BYTES = 2**30
"""Output beyond this is passed through and read, but not kept."""
MAX_PENDING = 2**16
"""Characters that wait for the end of their line."""
READ_BYTES = 2**16
ORPHAN_SECONDS = 2.0
"""Time for which output of a program's children is read after the program has ended."""
LEAVING_SECONDS = 15.0
"""Time for a program to end after it was asked to."""
SECRET = re.compile(r"token(?!izer|s)|pass|key|secret|cred|auth", re.IGNORECASE)
WITHHELD = "[withheld]"
LINE_END = re.compile(r"[\r\n]|(?<=it/s\])(?=\{)|(?<=s/it\])(?=\{)")
"""Also between a progress bar and the figures that are printed behind it, where both streams go to one file."""


class Lines:
    """Cuts the output of one stream into lines; a carriage return of a progress bar ends one too."""

    def __init__(self, take: Callable[[str, float], None]) -> None:
        self._take = take
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""
        self._arrived = 0.0

    def add(self, data: bytes, at: float, final: bool = False) -> None:
        """Take what came at a time. A line came with its last character: a bar ends it only with its next state."""
        text = self._decoder.decode(data, final)
        was_whole = (bool(self._pending) and LINE_END.match(text) is not None) or not text
        first, self._arrived = self._arrived if was_whole else at, at
        text = self._pending + text
        ends = LINE_END.split(text) if "it/s]{" in text or "s/it]{" in text else text.replace("\r", "\n").split("\n")
        *lines, self._pending = ends
        if len(self._pending) > MAX_PENDING or final:
            lines.append(self._pending)
            self._pending = ""
        for place, line in enumerate(lines):
            if line:
                self._take(line, first if place == 0 else at)


def watch(command: Sequence[str], take: Callable[[str, float], None], log: Path) -> int:
    """Run a command to its end; its exit status, 128 + N after signal N.

    `take` gets each line and the seconds since the start. The program's own output buffers would hold lines back, so
    that Python is asked not to buffer. SIGINT and SIGTERM reach the program; what it printed is kept.
    """
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    started = time.monotonic()
    try:
        program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"watch: cannot start {printable(command[0])}: {reason}") from None
    with log.open("wb") as kept:
        try:
            _pump(program, take, kept, started)
        except (KeyboardInterrupt, Terminated) as error:
            number = error.number if isinstance(error, Terminated) else signal.SIGINT
            program.send_signal(number)
            try:
                program.wait(LEAVING_SECONDS)
            except (subprocess.TimeoutExpired, KeyboardInterrupt, Terminated):
                program.kill()
        except BaseException:
            program.kill()
            raise
    status = program.wait()
    return status if status >= 0 else 128 - status


def _pump(program: subprocess.Popen[bytes], take: Callable[[str, float], None], kept: BinaryIO, started: float) -> None:
    size, ended = 0, None
    assert program.stdout is not None and program.stderr is not None  # noqa: PT018
    with selectors.DefaultSelector() as selector:
        for stream, own in ((program.stdout, sys.stdout), (program.stderr, sys.stderr)):
            selector.register(stream, selectors.EVENT_READ, (Lines(take), own))
        while selector.get_map():
            ready = selector.select(0.5)
            at = time.monotonic() - started
            # a progress bar (standard error) moves on before the figures of its step are printed
            for key, _ in sorted(ready, key=lambda one: one[0].data[1] is not sys.stderr):
                lines, own = key.data
                data = os.read(key.fd, READ_BYTES)
                lines.add(data, at, final=not data)
                if not data:
                    selector.unregister(key.fileobj)
                    continue
                _pass_on(own, data)
                if (size := size + len(data)) <= MAX_LOG_BYTES:
                    kept.write(data)
            if not ready and program.poll() is not None:
                ended = ended or at
                if at - ended > ORPHAN_SECONDS:
                    return


def _pass_on(stream: Any, data: bytes) -> None:
    """Write bytes to one of our own streams; a reader that has gone ends no run."""
    buffer = getattr(stream, "buffer", None)
    try:
        if buffer is None:
            stream.write(data.decode("utf-8", "replace"))
        else:
            buffer.write(data)
        stream.flush()
    except (BrokenPipeError, ValueError):
        pass


def without_secrets(command: Sequence[str]) -> tuple[str, ...]:
    """The words of a command; values of options whose names suggest a secret are withheld, numbers are not."""
    words, secret = [], False
    for word in command:
        name, equals, value = word.partition("=")
        if secret and not word.startswith("-") and not value_is_number(word):
            words.append(WITHHELD)
        elif equals and SECRET.search(name) and not value_is_number(value):
            words.append(f"{name}={WITHHELD}")
        else:
            words.append(word)
        secret = word.startswith("-") and not equals and SECRET.search(name) is not None
    return tuple(words)


def value_is_number(text: str) -> bool:
    """Check whether a word is a number, which is no secret."""
    try:
        float(text.replace("_", ""))
    except ValueError:
        return text.casefold() in ("true", "false", "none", "")
    return True
