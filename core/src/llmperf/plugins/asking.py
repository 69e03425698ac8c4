"""Records which plugin is being called, for the supervisor of a command (`cli/supervisor.py`).

The supervisor acts when a plugin ends the process or does not return. Without a supervisor, as in the ranks of a run,
nothing is recorded.
"""

from __future__ import annotations

import math
import mmap
import os
import struct
import sys
import time
from _thread import get_ident
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import NamedTuple

from llmperf.plugins.process_state import ProcessState, open_working_directory, present_state, restore

VARIABLE = "LLMPERF_PLUGIN_SECONDS"
"""Environment variable with the time limit for one answer of a plugin, in seconds."""
DEFAULT_SECONDS = 60.0
FACTORS = {"llmperf_peak_flops": 10.0, "llmperf_time_peak": 10.0}
"""Factors on the time limit, for hooks that may have to measure."""

SAME_REQUEST_SECONDS = 0.1
"""A signal that arrives again within this time is the copy that the supervisor passes on."""

MAIN, BACKGROUND = 0, 1
"""Slots of a board: for the main thread, whose questions have a time limit, and for other threads, without a limit."""

_SLOT_BYTES = 1024
_HEAD = struct.Struct("<IBdHH")
_COMPLETED = struct.Struct("<Bi")
_COMPLETED_AT = 2 * _SLOT_BYTES
_LOST_AT = 3 * _SLOT_BYTES
_REPEATABLE_AT = _LOST_AT + 1
_SIGNALS_AT = _LOST_AT + 2
_TALLY = struct.Struct("<4I")
_TALLY_AT = _LOST_AT + 128
_RUN = struct.Struct("<H")
_RUN_AT = _TALLY_AT + _TALLY.size
_MAX_RUN_BYTES = 700


class Question(NamedTuple):
    """A call into a plugin."""

    number: int
    """Increases with every question of the command."""
    active: bool
    """False once the plugin has answered."""
    seconds: float
    """The time limit; infinite if there is no limit."""
    plugin: str
    """The plugin as errors name it: `vendor 'acme' (llmperf-acme)`."""
    what: str
    """The hook, or another call such as `import`."""


class Tally(NamedTuple):
    """What a command that prints item by item has printed, for a repetition that goes on from there."""

    items: int = 0
    code: int = 0
    """The exit code that these items give."""
    errors: int = 0
    warnings: int = 0


class Board:
    """A page of memory that a command shares with its supervisor.

    Unlike a pipe, it is never full, and a plugin cannot close it or pass it on to child processes.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 4096)

    def write(self, slot: int, question: Question) -> None:
        """Record the current question of a slot."""
        plugin, what = question.plugin.encode()[:700], question.what.encode()[:200]
        head = _HEAD.pack(question.number, question.active, question.seconds, len(plugin), len(what))
        data = head + plugin + what
        begin = slot * _SLOT_BYTES
        self._memory[begin : begin + len(data)] = data

    def question(self, slot: int) -> Question | None:
        """The last question of a slot; None before the first."""
        begin = slot * _SLOT_BYTES
        data = self._memory[begin : begin + _SLOT_BYTES]
        while (again := self._memory[begin : begin + _SLOT_BYTES]) != data:  # written while it was read
            data = again
        number, active, seconds, plugin_bytes, what_bytes = _HEAD.unpack_from(data)
        if not number:
            return None
        text = data[_HEAD.size :]
        plugin = text[:plugin_bytes].decode(errors="replace")
        what = text[plugin_bytes : plugin_bytes + what_bytes].decode(errors="replace")
        return Question(number, bool(active), seconds, plugin, what)

    def finish(self, code: int) -> None:
        """Record that the command was completed, with its exit code."""
        _COMPLETED.pack_into(self._memory, _COMPLETED_AT, 1, code)

    def lose_output(self) -> None:
        """Record that a plugin closed or replaced the standard output or error of the command."""
        self._memory[_LOST_AT] = 1

    def count_signal(self, number: int) -> None:
        """Record that the command has handled a signal."""
        self._memory[_SIGNALS_AT + number] = min(self._memory[_SIGNALS_AT + number] + 1, 255)

    def signals(self, number: int) -> int:
        """How often the command has handled a signal, up to 255."""
        return self._memory[_SIGNALS_AT + number]

    def set_repeatable(self, repeatable: bool) -> None:
        """Record whether the command may be run again from its beginning."""
        self._memory[_REPEATABLE_AT] = repeatable

    @property
    def repeatable(self) -> bool:
        """Whether the command may be run again from its beginning."""
        return bool(self._memory[_REPEATABLE_AT])

    def keep_tally(self, tally: Tally) -> None:
        """Record what the command has printed, for its repetition."""
        _TALLY.pack_into(self._memory, _TALLY_AT, *tally)

    @property
    def tally(self) -> Tally:
        """What the command has printed, in all attempts together."""
        return Tally._make(_TALLY.unpack_from(self._memory, _TALLY_AT))

    def note_run(self, folder: str) -> None:
        """Record the folder of the run that the command has begun."""
        data = os.fsencode(folder)
        if len(data) <= _MAX_RUN_BYTES:
            self._memory[_RUN_AT : _RUN_AT + _RUN.size + len(data)] = _RUN.pack(len(data)) + data

    @property
    def run(self) -> str | None:
        """The folder of the last run that the command has begun; None if there is none."""
        (size,) = _RUN.unpack_from(self._memory, _RUN_AT)
        begin = _RUN_AT + _RUN.size
        return os.fsdecode(self._memory[begin : begin + size]) if size else None

    @property
    def exit_code(self) -> int | None:
        """The exit code of a completed command; None before."""
        completed, code = _COMPLETED.unpack_from(self._memory, _COMPLETED_AT)
        return code if completed else None

    @property
    def output_lost(self) -> bool:
        """Whether a plugin closed or replaced the standard output or error of the command."""
        return bool(self._memory[_LOST_AT])


class _Asker:
    """Writes the questions of a command to a board."""

    def __init__(self, board: Board, faults: Mapping[str, str]) -> None:
        self.faults = faults
        self.board = board
        self._process = os.getpid()
        self._thread = get_ident()
        self._seconds = limit()
        last = board.question(MAIN)
        self._number = last.number if last else 0
        self._current: list[Question | None] = [None, None]
        self._outputs: dict[int, tuple[int, int]] | None = None
        self._folder: int | None = None
        self._state: ProcessState | None = None
        self._restored: set[str] = set()
        self._signalled: dict[int, float] = {}

    @property
    def responsible(self) -> bool:
        """Whether this is the process of the command; False in a process that a plugin forked."""
        return os.getpid() == self._process

    def new_request(self, number: int) -> bool:
        """See `new_request` below."""
        now = time.monotonic()
        if now - self._signalled.get(number, -1.0) < SAME_REQUEST_SECONDS:
            return False
        self._signalled[number] = now
        self.board.count_signal(number)
        return True

    def begin(self, plugin: str, what: str, seconds: float | None) -> Question | None:
        """Record a question; returns the question that it interrupts, or None."""
        if self._outputs is None:
            self._outputs = _identities(
                [1, 2, *(stream.fileno() for stream in (sys.stdout, sys.stderr) if stream is not None)]
            )
            self._folder = open_working_directory()
        slot = self._slot()
        last = self._current[slot]
        if slot == MAIN and not (last is not None and last.active):
            self._state = present_state()
        if seconds is None:
            seconds = self._seconds * FACTORS.get(what, 1.0) if slot == MAIN else math.inf
        before = self._current[slot]
        self._put(slot, True, seconds, plugin, what)
        return before if before is not None and before.active else None

    def end(self, before: Question | None) -> None:
        """Record that the plugin has answered, and restore the question that was interrupted."""
        slot = self._slot()
        asked = before or self._current[slot]
        assert asked is not None
        assert self._outputs is not None
        if slot == MAIN and _identities(self._outputs) != self._outputs:
            self.board.lose_output()
            os._exit(2)
        if slot == MAIN and before is None and self._state is not None:
            changed = restore(self._state, self._folder)
            if changed is not None and asked.plugin not in self._restored:
                self._restored.add(asked.plugin)
                print(f"llmperf: warning: {asked.plugin}: {asked.what} changed {changed}; restored", file=sys.stderr)
        self._put(slot, before is not None, asked.seconds, asked.plugin, asked.what)

    def _put(self, slot: int, active: bool, seconds: float, plugin: str, what: str) -> None:
        self._number += 1
        question = Question(self._number, active, seconds, plugin, what)
        self._current[slot] = question
        self.board.write(slot, question)

    def _slot(self) -> int:
        return MAIN if get_ident() == self._thread else BACKGROUND


def _identities(descriptors: Iterable[int]) -> dict[int, tuple[int, int]]:
    """Device and inode of the file behind each descriptor that is open."""
    identities = {}
    for descriptor in descriptors:
        with suppress(OSError):
            status = os.fstat(descriptor)
            identities[descriptor] = (status.st_dev, status.st_ino)
    return identities


_asker: _Asker | None = None


def report_to(board: Board, faults: Mapping[str, str] = MappingProxyType({})) -> None:
    """Record on this board, from now on, which plugin is being asked.

    `faults` names the plugins that made an earlier attempt of this command fail, with the reason.
    """
    global _asker
    _asker = _Asker(board, faults)


def new_request(number: int) -> bool:
    """For signal handlers: whether a signal is a new request, and not the supervisor's copy of the last one.

    A signal to the process group reaches both processes. The supervisor passes on only signals that the command has not
    handled yet, so that a copy arrives at once or never.
    """
    return _asker is None or _asker.new_request(number)


def may_be_repeated() -> None:
    """Let the supervisor run this command again without a plugin that ended it."""
    if _asker is not None:
        _asker.board.set_repeatable(True)


def cannot_be_repeated() -> None:
    """Record that the command has printed or made something, so that it cannot be run again from its beginning."""
    if _asker is not None and _asker.responsible:
        _asker.board.set_repeatable(False)


def run_begins(folder: str) -> None:
    """Record that a run begins in this folder, so that the command cannot be run again from its beginning."""
    cannot_be_repeated()
    if _asker is not None and _asker.responsible:
        _asker.board.note_run(folder)


def keep_tally(tally: Tally) -> None:
    """Record what this command has printed, for commands that can go on from there when they are repeated."""
    if _asker is not None:
        _asker.board.keep_tally(tally)


def tally() -> Tally:
    """What earlier attempts of this command have printed."""
    return Tally() if _asker is None else _asker.board.tally


def already_reported(message: str) -> bool:
    """Whether the supervisor has printed this, as the reason for which it runs the command again."""
    return _asker is not None and any(fault in message for fault in _asker.faults.values())


def fault_of(plugin: str) -> str | None:
    """Why this plugin made an earlier attempt of this command fail; None if it did not."""
    return None if _asker is None else _asker.faults.get(plugin)


def supervised() -> bool:
    """Whether this process is a command with a supervisor."""
    return _asker is not None and _asker.responsible


def limit() -> float:
    """The time limit for one answer of a plugin, from the environment; ValueError unless it is a number above 0."""
    text = os.environ.get(VARIABLE)
    if not text:
        return DEFAULT_SECONDS
    seconds = float(text)
    if not seconds > 0:
        raise ValueError(text)
    return seconds


@contextmanager
def asking(plugin: str, what: str, seconds: float | None = None) -> Iterator[None]:
    """Let the supervisor of this command know which plugin runs in this context, and its time limit."""
    asker = _asker
    if asker is None or not asker.responsible:
        yield
        return
    if sys.stdout is not None:
        sys.stdout.flush()  # otherwise lost if the plugin ends the process
    before = asker.begin(plugin, what, seconds)
    try:
        yield
    finally:
        if not asker.responsible:  # forked by the plugin: the command continues in its own process only
            os._exit(0)
        asker.end(before)
