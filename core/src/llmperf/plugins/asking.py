"""Which plugin is being asked what: written for the supervisor of a command (`cli/supervisor.py`), which acts when a
plugin ends the process or never answers. Without a supervisor, as in the ranks of a run, nothing is written.
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

VARIABLE = "LLMPERF_PLUGIN_SECONDS"
"""How long a plugin may take for one answer."""
DEFAULT_SECONDS = 60.0
FACTORS = {"llmperf_peak_flops": 10.0}
"""Of hooks that may have to measure; times the limit of all others."""

SAME_REQUEST_SECONDS = 0.1
"""A signal that comes again so soon is the supervisor's copy of it."""

MAIN, BACKGROUND = 0, 1
"""Questions of the main thread, which have a time limit, and those of other threads, which have none."""

_SLOT_BYTES = 1024
_HEAD = struct.Struct("<IBdHH")
_COMPLETED = struct.Struct("<Bi")
_COMPLETED_AT = 2 * _SLOT_BYTES
_LOST_AT = 3 * _SLOT_BYTES
_REPEATABLE_AT = _LOST_AT + 1
_SIGNALS_AT = _LOST_AT + 2


class Question(NamedTuple):
    """One answer that a plugin was asked for."""

    number: int
    """Counted by the command; a new question has another number."""
    active: bool
    """False once the plugin has answered."""
    seconds: float
    """The time limit; infinite where there is none."""
    plugin: str
    """As errors name it: `vendor 'acme' (llmperf-acme)`."""
    what: str
    """The hook, or another call into the plugin such as `import`."""


class Board:
    """A page of memory that a command shares with its supervisor.

    Unlike a pipe, it cannot be closed by a plugin, inherited by the plugin's child processes, or full.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 4096)

    def write(self, slot: int, question: Question) -> None:
        """Note the current question of a slot."""
        plugin, what = question.plugin.encode()[:700], question.what.encode()[:200]
        head = _HEAD.pack(question.number, question.active, question.seconds, len(plugin), len(what))
        data = head + plugin + what
        begin = slot * _SLOT_BYTES
        self._memory[begin : begin + len(data)] = data

    def question(self, slot: int) -> Question | None:
        """The last question of a slot; None before the first."""
        begin = slot * _SLOT_BYTES
        data = self._memory[begin : begin + _SLOT_BYTES]
        while (again := self._memory[begin : begin + _SLOT_BYTES]) != data:  # it was being written
            data = again
        number, active, seconds, plugin_bytes, what_bytes = _HEAD.unpack_from(data)
        if not number:
            return None
        text = data[_HEAD.size :]
        plugin = text[:plugin_bytes].decode(errors="replace")
        what = text[plugin_bytes : plugin_bytes + what_bytes].decode(errors="replace")
        return Question(number, bool(active), seconds, plugin, what)

    def finish(self, code: int) -> None:
        """Note that the command was completed, with this exit code."""
        _COMPLETED.pack_into(self._memory, _COMPLETED_AT, 1, code)

    def lose_output(self) -> None:
        """Note that a plugin closed or replaced the standard output or error of the command."""
        self._memory[_LOST_AT] = 1

    def count_signal(self, number: int) -> None:
        """Note that the command has seen to a signal."""
        self._memory[_SIGNALS_AT + number] = min(self._memory[_SIGNALS_AT + number] + 1, 255)

    def signals(self, number: int) -> int:
        """How often the command has seen to a signal, up to 255."""
        return self._memory[_SIGNALS_AT + number]

    def may_be_repeated(self) -> None:
        """Note that the command prints nothing before it has asked all plugins."""
        self._memory[_REPEATABLE_AT] = 1

    @property
    def repeatable(self) -> bool:
        """Whether the command prints nothing before it has asked all plugins."""
        return bool(self._memory[_REPEATABLE_AT])

    @property
    def exit_code(self) -> int | None:
        """Of a completed command."""
        completed, code = _COMPLETED.unpack_from(self._memory, _COMPLETED_AT)
        return code if completed else None

    @property
    def output_lost(self) -> bool:
        """Whether a plugin closed or replaced the standard output or error of the command."""
        return bool(self._memory[_LOST_AT])


class _Asker:
    """The command's side of a board."""

    def __init__(self, board: Board, faults: Mapping[str, str]) -> None:
        self.faults = faults
        self._board = board
        self._process = os.getpid()
        self._thread = get_ident()
        self._seconds = limit()
        last = board.question(MAIN)
        self._number = last.number if last else 0
        self._current: list[Question | None] = [None, None]
        self._outputs: dict[int, tuple[int, int]] | None = None
        self._signalled: dict[int, float] = {}

    @property
    def responsible(self) -> bool:
        """False in a process that a plugin forked."""
        return os.getpid() == self._process

    def may_be_repeated(self) -> None:
        """See `may_be_repeated` below."""
        self._board.may_be_repeated()

    def new_request(self, number: int) -> bool:
        """See `new_request` below."""
        now = time.monotonic()
        if now - self._signalled.get(number, -1.0) < SAME_REQUEST_SECONDS:
            return False
        self._signalled[number] = now
        self._board.count_signal(number)
        return True

    def begin(self, plugin: str, what: str, seconds: float | None) -> Question | None:
        """Note a question; returns the one that it interrupts, if any."""
        if self._outputs is None:
            self._outputs = _identities([1, 2, *(one.fileno() for one in (sys.stdout, sys.stderr) if one is not None)])
        slot = self._slot()
        if seconds is None:
            seconds = self._seconds * FACTORS.get(what, 1.0) if slot == MAIN else math.inf
        before = self._current[slot]
        self._put(slot, True, seconds, plugin, what)
        return before if before is not None and before.active else None

    def end(self, before: Question | None) -> None:
        """Note that the plugin has answered, and go on with the question that it interrupted."""
        slot = self._slot()
        asked = before or self._current[slot]
        assert asked is not None
        assert self._outputs is not None
        self._put(slot, before is not None, asked.seconds, asked.plugin, asked.what)
        if slot == MAIN and _identities(self._outputs) != self._outputs:
            self._board.lose_output()
            os._exit(2)

    def _put(self, slot: int, active: bool, seconds: float, plugin: str, what: str) -> None:
        self._number += 1
        question = Question(self._number, active, seconds, plugin, what)
        self._current[slot] = question
        self._board.write(slot, question)

    def _slot(self) -> int:
        return MAIN if get_ident() == self._thread else BACKGROUND


def _identities(descriptors: Iterable[int]) -> dict[int, tuple[int, int]]:
    """The files behind those of the descriptors that are open."""
    found = {}
    for descriptor in descriptors:
        with suppress(OSError):
            status = os.fstat(descriptor)
            found[descriptor] = (status.st_dev, status.st_ino)
    return found


_asker: _Asker | None = None


def report_to(board: Board, faults: Mapping[str, str] = MappingProxyType({})) -> None:
    """From now on, note on this board which plugin is being asked.

    `faults` has the plugins that kept this command from being done when it was run before, and how.
    """
    global _asker
    _asker = _Asker(board, faults)


def new_request(number: int) -> bool:
    """For handlers: whether a signal that came is a new request, and not the supervisor's copy of the last one.

    A signal that is sent to the process group reaches both. The supervisor passes on only what the command has not
    seen to yet, so that a copy can come at once and never later.
    """
    return _asker is None or _asker.new_request(number)


def may_be_repeated() -> None:
    """Let the supervisor run this command again without a plugin that ends it: nothing is printed before all plugins
    have been asked.
    """
    if _asker is not None:
        _asker.may_be_repeated()


def fault_of(plugin: str) -> str | None:
    """How this plugin kept this command from being done before; None where it did not."""
    return None if _asker is None else _asker.faults.get(plugin)


def supervised() -> bool:
    """Whether this is a command under a supervisor."""
    return _asker is not None and _asker.responsible


def limit() -> float:
    """Seconds a plugin has for one answer, from the environment; ValueError for anything but a number above 0."""
    text = os.environ.get(VARIABLE)
    if not text:
        return DEFAULT_SECONDS
    seconds = float(text)
    if not seconds > 0:
        raise ValueError(text)
    return seconds


@contextmanager
def asking(plugin: str, what: str, seconds: float | None = None) -> Iterator[None]:
    """While a plugin runs in here, the supervisor of this command knows which one, and how long it may take."""
    asker = _asker
    if asker is None or not asker.responsible:
        yield
        return
    if sys.stdout is not None:
        sys.stdout.flush()  # it would be lost with the process
    before = asker.begin(plugin, what, seconds)
    try:
        yield
    finally:
        if not asker.responsible:  # the plugin forked, and this is the fork: the command goes on in one process only
            os._exit(0)
        asker.end(before)
