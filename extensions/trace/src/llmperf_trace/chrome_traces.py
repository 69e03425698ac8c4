"""Chrome traces: the operations in them by name, with seconds and calls. Anybody may have made the files."""

from __future__ import annotations

import codecs
import gzip
import json
import math
import re
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, BinaryIO, Literal, cast

from llmperf import open_regular, printable
from llmperf.errors import UserError

MAX_BYTES = 2**30
"""Size of the decompressed text."""
MAX_KEYS = 1000
"""Values beside the events."""
MAX_EVENTS = 4_000_000
MAX_NAMES = 20_000
"""Operations, and threads, by name."""
MAX_NAME = 200
"""Characters of a name."""
MAX_VALUE = 4 * 2**20
"""Characters of one event, or of another value beside the events."""
BLOCK = 256 * 1024
LONGEST = 1e15
"""Microseconds of the longest event: beyond 30 years."""
EVENTS = "traceEvents"
DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
"""Categories of what ran on a device."""
HOST = frozenset({"cpu_op", "operator"})
"""Categories of operations on the host, without regions that a program named and calls of Python."""
BLANKS = re.compile(r"[ \t\r\n]*")
STEP_MARK = "ProfilerStep#"
"""How the marks of steps begin, if a profiler made any."""

Clock = Literal["device", "host"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOperations:
    """The operations in one Chrome trace."""

    clock: Clock
    """`device`: times of what ran on a device; `host`: of calls, each without those that it makes."""
    seconds: dict[str, float]
    """By name, in the whole trace."""
    calls: dict[str, int]
    marked_steps: int
    """Steps that the profiler marked; 0 if it marked none."""
    malformed: int
    """Complete events without a name or finite times, which are left out."""

    def of_step(self, name: str) -> tuple[float, float]:
        """Seconds and calls of an operation in a step; in the whole trace if no steps are marked."""
        steps = self.marked_steps or 1
        return self.seconds.get(name, 0.0) / steps, self.calls.get(name, 0) / steps

    def document(self, file: Path) -> dict[str, object]:
        """Plain values for JSON; `seconds` is the sum of all operations, also of those at the same time."""
        seconds = sum(self.of_step(name)[0] for name in self.seconds)
        values = {"files": [str(file)], "steps": self.marked_steps or None, "clock": self.clock, "seconds": seconds}
        return {**values, "notes": self.notes}

    @property
    def notes(self) -> tuple[str, ...]:
        """What is wrong with the figures."""
        notes = [f"{self.malformed} events without a name or finite times are left out"] if self.malformed else []
        if not self.marked_steps:
            notes.append("the number of steps is unknown: the figures are of the whole trace")
        return tuple(notes)


def is_trace(path: Path) -> bool:
    """Check whether the beginning of a file looks like a Chrome trace."""
    try:
        with open_regular(path) as file:
            head = _unpacked(file).read(MAX_VALUE)
    except (OSError, EOFError, zlib.error):
        return False
    begin = head.removeprefix(codecs.BOM_UTF8).lstrip()[:1]
    return (begin == b"{" and f'"{EVENTS}"'.encode() in head) or (begin == b"[" and b'"ph"' in head)


def _unpacked(file: BinaryIO) -> IO[bytes]:
    packed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    return cast(IO[bytes], gzip.GzipFile(fileobj=file)) if packed else file


def read_trace(path: Path) -> TraceOperations:
    """The operations in a Chrome trace, read in pieces and bounded; UserError for one that cannot be used."""
    found = _Found()
    try:
        with open_regular(path) as file:
            for event in _events(_Text(_unpacked(file))):
                found.add(event)
        return found.operations()
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(printable(f"{path}: cannot read the Chrome trace: {error}", " ")) from None
    except RecursionError:
        raise UserError(f"{path}: expected a Chrome trace, found values nested too deeply") from None
    except ValueError as error:
        raise UserError(printable(f"{path}: {error}"[:400], " ")) from None


class _Text:
    """A JSON text that is decoded value by value; ValueError where it is malformed or too large."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        # digits that are too many for an integer of Python make a float
        decoder = json.JSONDecoder(parse_int=lambda digits: int(digits) if len(digits) < 20 else float(digits))
        self._decode = decoder.raw_decode
        self._text = ""
        self._at = 0
        self._length = 0

    def next(self) -> str:
        """The next character that is not blank, which stays; empty at the end."""
        while True:
            self._at = BLANKS.match(self._text, self._at).end()  # type: ignore[union-attr]  # always matches
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def take(self, expected: str) -> str:
        """The next character, one of those expected, or none if the text has to end."""
        character = self.next()
        if character not in expected or bool(character) != bool(expected):
            place = self._length - len(self._text) + self._at
            raise ValueError(f"expected a Chrome trace, found {character or 'its end'!r} at character {place}")
        self._at += 1
        return character

    def value(self) -> object:
        """The next value."""
        self.next()
        while True:
            try:
                value, end = self._decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if len(self._text) - self._at > MAX_VALUE:
                    what = f"events and values of at most {MAX_VALUE} characters, found a longer one, or no JSON"
                    raise ValueError(f"expected a Chrome trace with {what}") from None
                if not self._more():
                    raise ValueError(f"expected a Chrome trace, found no JSON: {error.msg}") from None
                continue
            if end == len(self._text) and self._more():  # may be half a number
                continue
            self._at = end
            return value

    def _more(self) -> bool:
        block = self._stream.read(BLOCK)
        self._text, self._at = self._text[self._at :] + self._decoder.decode(block, not block), 0
        self._length += len(block)
        if self._length > MAX_BYTES:
            raise ValueError(f"expected a Chrome trace of at most {MAX_BYTES} bytes, found more")
        return bool(block)


def _events(text: _Text) -> Iterator[object]:
    """The events of a list, or of an object with `traceEvents`."""
    if text.take("{[") == "[":
        while text.next() not in ("]", ""):  # programs that are killed write no end
            yield text.value()
            if text.next() not in ("]", ""):
                text.take(",")
        if text.next():
            text.take("]")
        text.take("")
        return
    found = False
    for _ in range(MAX_KEYS):
        if text.next() == "}":
            break
        key = text.value()
        text.take(":")
        if key == EVENTS:
            found = True
            text.take("[")
            while text.next() != "]":
                yield text.value()
                if text.next() != "]":
                    text.take(",")
            text.take("]")
        else:
            text.value()
        if text.next() != "}":
            text.take(",")
    text.take("}")
    text.take("")
    if not found:
        raise ValueError(f"expected a Chrome trace, found no {EVENTS}")


@dataclass(slots=True)
class _Found:
    """Contents of a trace that were read; the times of the host by thread, since calls contain each other."""

    names: dict[str, int] = field(default_factory=dict)
    threads: dict[tuple[str, bool], tuple[array[float], array[float], array[int]]] = field(default_factory=dict)
    """Begin, length and name of the calls of each thread, those of operations apart from others."""
    on_device: dict[int, tuple[float, int]] = field(default_factory=dict)
    """Microseconds and calls by name."""
    events: int = 0
    marks: set[str] = field(default_factory=set)
    malformed: int = 0
    operations_on_host: bool = False

    def add(self, event: object) -> None:
        self.events += 1
        if self.events > MAX_EVENTS:
            raise ValueError(f"expected a Chrome trace of at most {MAX_EVENTS} events, found more")
        if not isinstance(event, dict) or event.get("ph") != "X":
            return
        name, begin, length = event.get("name"), _number(event.get("ts")), _number(event.get("dur"))
        if not isinstance(name, str) or begin is None or length is None or length < 0:
            self.malformed += 1
            return
        category = str(event.get("cat", ""))[:MAX_NAME].lower()
        if name.startswith(STEP_MARK):
            if len(self.marks) < MAX_NAMES:
                self.marks.add(name[:MAX_NAME])
            return
        name = printable(name[:MAX_NAME].replace("::", "."), " ")
        if name not in self.names and len(self.names) >= MAX_NAMES:
            raise ValueError(f"expected a Chrome trace of at most {MAX_NAMES} operations, found more")
        place = self.names.setdefault(name, len(self.names))
        if category in DEVICE:
            total, calls = self.on_device.get(place, (0.0, 0))
            self.on_device[place] = total + length, calls + 1
            return
        operation = category in HOST
        if self.on_device or (self.operations_on_host and not operation):
            return  # not needed any more
        self.operations_on_host |= operation
        thread = f"{event.get('pid')!r:.100} {event.get('tid')!r:.100}", operation
        if thread not in self.threads and len(self.threads) >= MAX_NAMES:
            raise ValueError(f"expected a Chrome trace of at most {MAX_NAMES} threads, found more")
        begins, lengths, places = self.threads.setdefault(thread, (array("d"), array("d"), array("l")))
        begins.append(begin)
        lengths.append(length)
        places.append(place)

    def operations(self) -> TraceOperations:
        """The operations of the device; without any, those of the host; without any, all calls."""
        names = list(self.names)
        seconds = dict.fromkeys(names, 0.0)
        calls = dict.fromkeys(names, 0)
        for place, (total, count) in self.on_device.items():
            seconds[names[place]], calls[names[place]] = total / 1e6, count
        for (_, operation), track in self.threads.items() if not self.on_device else ():
            if operation == self.operations_on_host:
                for place, own in _own_times(*track):
                    seconds[names[place]] += own / 1e6
                    calls[names[place]] += 1
        if not any(calls.values()):
            without = f"; {self.malformed} have no name or no finite times" if self.malformed else ""
            raise ValueError(f"expected a Chrome trace with complete events (ph X), found none{without}")
        return TraceOperations(
            clock="device" if self.on_device else "host",
            seconds={name: time for name, time in seconds.items() if calls[name]},
            calls={name: count for name, count in calls.items() if count},
            marked_steps=len(self.marks),
            malformed=self.malformed,
        )


def _own_times(begins: array[float], lengths: array[float], places: array[int]) -> Iterator[tuple[int, float]]:
    """The name of each call of a thread, and its time without the calls in it."""
    inside: list[list[float]] = []
    """End, own time and name of the calls that go on."""
    for index in sorted(range(len(begins)), key=lambda index: (begins[index], -lengths[index])):
        begin, end = begins[index], begins[index] + lengths[index]
        while inside and inside[-1][0] <= begin:
            _, own, place = inside.pop()
            yield int(place), max(0.0, own)
        if inside:
            inside[-1][1] -= min(end, inside[-1][0]) - begin
        inside.append([end, lengths[index], places[index]])
    for _, own, place in inside:
        yield int(place), max(0.0, own)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > LONGEST:
        return None
    return float(value) if math.isfinite(value) else None
