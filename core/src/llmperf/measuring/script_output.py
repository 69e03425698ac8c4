"""The output of a rank's external script: copied to the rank's log, cut into lines, parsed by the framework plugin."""

from __future__ import annotations

import math
import os
import select
import subprocess
import time
from collections.abc import Iterable, Iterator
from typing import IO, Any, NamedTuple

from llmperf.errors import PluginError
from llmperf.plugins.faults import blaming, of_kind, who
from llmperf.plugins.loading import Plugins
from llmperf.runfolder.recorder import Moment
from llmperf.types.logged import LoggedFacts, LoggedFailure, LoggedStep

READ_BYTES = 2**16
DRAIN_SECONDS = 1.0
"""How long output is still read after the process has ended. A child that outlives it may hold the pipe open."""
MAX_LINE_BYTES = 2**16
"""Only the end of a longer line is kept: no line that reports a step is that long."""

HOOK = "llmperf_parse_log"
Logged = LoggedStep | LoggedFacts | LoggedFailure
KINDS: tuple[type[Logged], ...] = (LoggedStep, LoggedFacts, LoggedFailure)
MAX_ANSWERS = 100
"""Answers that a plugin may give for one line."""
MAX_SHOWN = 80


class Line(NamedTuple):
    """One line of output and the moment at which it arrived."""

    text: str
    moment: Moment


class ScriptOutput:
    """The standard output of a running process; `log` is the descriptor of the file that it is copied to."""

    def __init__(self, process: subprocess.Popen[bytes], log: int) -> None:
        assert process.stdout is not None
        self._process = process
        self._pipe: IO[bytes] = process.stdout
        self._log = log
        self._rest = b""
        self.ended = False
        """Whether the process has ended and all that it printed has been read."""

    def lines(self, seconds: float) -> Iterator[Line]:
        """The next lines; waits at most `seconds` for the first of them.

        The output ends with the process, even if a child of the process still holds the pipe open.
        """
        ended = self._process.poll() is not None
        until = time.monotonic() + seconds + DRAIN_SECONDS
        while select.select([self._pipe], [], [], 0.0 if ended else seconds)[0] and time.monotonic() < until:
            data = os.read(self._pipe.fileno(), READ_BYTES)
            moment = Moment.now()
            if not data:
                ended = True
                break
            self._copy(data)
            yield from (Line(text, moment) for text in self._cut(data))
            if not ended:
                return
        if ended:
            self.ended = True
            yield from (Line(text, Moment.now()) for text in self._cut(b"\n") if text)

    def _copy(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._log, data) :]

    def _cut(self, data: bytes) -> list[str]:
        """Complete lines. A carriage return ends a line too: progress bars use it."""
        *whole, rest = (self._rest + data).replace(b"\r", b"\n").split(b"\n")
        self._rest = rest[-MAX_LINE_BYTES:]
        return [line[-MAX_LINE_BYTES:].decode("utf-8", "replace") for line in whole]


class LineParser:
    """Passes lines to the plugin's `llmperf_parse_log` and checks its answers."""

    def __init__(self, plugins: Plugins) -> None:
        self._plugins = plugins
        self._owner = plugins.owner(HOOK)
        self.count = 0
        """Lines parsed so far."""
        self.who = who(self._owner)
        """The plugin's name in messages, such as `framework 'acme' (llmperf-acme)`."""

    def parse(self, line: str) -> tuple[Logged, ...]:
        """The answers for one line, in the plugin's order; PluginError if the plugin raises or an answer is invalid."""
        self.count += 1
        with blaming(self._owner, HOOK):
            given = self._plugins.ask(HOOK, line=line)
        if given is None:
            return ()
        return tuple(self._checked(answer) for answer in self._answers(given))

    def _answers(self, given: Any) -> list[Any]:
        if isinstance(given, (*KINDS, str, bytes, dict)) or not isinstance(given, Iterable):
            return [given]
        answers = []
        with blaming(self._owner, HOOK):
            for answer in given:
                answers.append(answer)
                if len(answers) > MAX_ANSWERS:
                    raise PluginError(f"{self.who}: {HOOK} gave more than {MAX_ANSWERS} answers for one line")
        return answers

    def _checked(self, answer: Any) -> Logged:
        kind = next((kind for kind in KINDS if isinstance(answer, kind)), None)
        if kind is None:
            names = ", ".join(kind.__name__ for kind in KINDS)
            expected = f"one of {names}, several of them, or None"
            raise PluginError(f"{self.who}: {HOOK}: expected {expected}, found {repr(answer)[:MAX_SHOWN]}")
        logged: Logged = of_kind(self._owner, HOOK, answer, kind)
        # a loss may be NaN: the run then fails for that reason, which is not the plugin's fault
        for name, least in (("step", 1), ("seconds", 0), ("tokens", 0), ("peak_memory_bytes", 0), ("parameters", 1)):
            value = getattr(logged, name, None)
            if value is not None and not (math.isfinite(value) and value >= least):
                expected = "steps counted from 1" if name == "step" else f"a number of at least {least}"
                where = f"{self.who}: {HOOK}: {type(logged).__name__}.{name}"
                raise PluginError(f"{where}: expected {expected}, found {value}")
        return logged
