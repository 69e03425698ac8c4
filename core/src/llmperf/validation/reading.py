"""Documents from other people, read without trust: bounded in size, depth and digits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

from llmperf.errors import UserError
from llmperf.files.json_files import read_bytes
from llmperf.files.text import encodable, printable
from llmperf.types.texts import Text

MAX_DEPTH = 64
"""Deeper nesting is refused; the documents of llmperf have less than ten levels."""
MAX_DIGITS = 40
LARGE = 10 ** (MAX_DIGITS - 1)
"""Integers below it have fewer digits."""
MAX_SHOWN = 80
_KEYS = re.compile(rb'"\s*:')
"""The end of every key of JSON, and some places in texts."""
_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


@dataclass(frozen=True)
class Parsed:
    """A document as dicts, lists and scalars, with the keys that stood twice in one object."""

    value: Any
    repeated: tuple[str, ...] = ()


@dataclass
class _Hooks:
    repeated: list[str] = field(default_factory=list)

    def pairs(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(pairs)
        if len(table) < len(pairs):
            seen: set[str] = set()
            self.repeated += [key for key, _ in pairs if key in seen or seen.add(key)]  # type: ignore[func-returns-value]
        return table

    def integer(self, digits: str) -> int:
        if len(digits) > MAX_DIGITS:
            raise ValueError(f"integer of {len(digits)} digits")
        return int(digits)

    def real(self, digits: str) -> float:
        value = float(digits)
        if value in (float("inf"), float("-inf")):
            raise ValueError(f"number {shown(digits)} is too large")
        return value

    def constant(self, word: str) -> Any:
        raise ValueError(f"{word} is not JSON")


def parse_json(data: bytes, where: str) -> Parsed:
    """Strict JSON; UserError that names `where` for anything else, and for what is nested too deep."""
    if (value := _plain_json(data)) is not None:
        return Parsed(value)
    hooks = _Hooks()
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=hooks.pairs,
            parse_int=hooks.integer,
            parse_float=hooks.real,
            parse_constant=hooks.constant,
        )
    except UnicodeDecodeError as error:
        raise UserError(f"{where}: not UTF-8 (byte {error.start})") from None
    except (ValueError, RecursionError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else str(error)
        raise UserError(f"{where}: not JSON: {reason}") from None
    _check_depth(value, where)
    if _ESCAPED_SURROGATE.search(data):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = encodable(error.object[error.start])
            raise UserError(f"{where}: not JSON: {half} is half a surrogate pair, which is no character") from None
    return Parsed(value, tuple(hooks.repeated[:10]))


def _plain_json(data: bytes) -> dict[str, Any] | None:
    """An object that the fast reader takes and that has nothing to report; None leaves it to the careful reader.

    The fast reader keeps the last of repeated keys. No key is repeated if the objects have as many keys as the text has
    quotation marks before a colon.
    """
    try:
        value = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if type(value) is not dict or _ESCAPED_SURROGATE.search(data):
        return None
    keys = 0
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        deeper = []
        for container in level:
            keys += len(container) if type(container) is dict else 0
            for inner in _values(container):
                kind = type(inner)
                if kind is dict or kind is list:
                    deeper.append(inner)
                elif kind is int and not -LARGE < inner < LARGE:
                    return None
        if not deeper:
            return value if keys == len(_KEYS.findall(data)) else None
        level = deeper
    return None


def from_toml(table: dict[str, Any], where: str) -> Parsed:
    """TOML tables as JSON has them; dates, infinities and NaN become text, which no schema takes for a number."""
    _check_depth(table, where)
    return Parsed(_as_json(table))


def _as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_json(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_as_json(inner) for inner in value]
    plain = isinstance(value, (str, int)) or (isinstance(value, float) and isfinite(value))
    return value if plain else str(value)


def _check_depth(value: Any, where: str) -> None:
    level: list[Any] = [[value]]
    for _ in range(MAX_DEPTH + 1):
        level = [inner for outer in level for inner in _values(outer) if isinstance(inner, (dict, list))]
        if not level:
            return
    raise UserError(f"{where}: not read: nested deeper than {MAX_DEPTH} levels")


def _values(container: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return container.values() if isinstance(container, dict) else container


def shown(value: Any) -> str:
    """A value short enough for one line, containers by their kind."""
    if isinstance(value, dict):
        return Text("an object of {} keys", len(value))
    if isinstance(value, (list, tuple)):
        return Text("an array of {}", len(value))
    short = value[: MAX_SHOWN + 1] if isinstance(value, str) else value
    text = printable(json.dumps(short, ensure_ascii=False))
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "..."


def pointer(parts: Iterator[str | int] | list[str | int] | tuple[str | int, ...]) -> str:
    """A JSON pointer (RFC 6901)."""
    return encodable("".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts))


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_TABLE = re.compile(r"\s*\[+\s*([\w.-]+)\s*\]+")
_KEY = re.compile(r"\s*([\w.-]+)\s*=")


def lines_of(path: Path, pointers: Iterable[str]) -> dict[str, int]:
    """The line from 1 of each pointer, of its parent where nothing is there; none for a file that cannot be read."""
    wanted = list(dict.fromkeys(pointers))
    try:
        text = read_bytes(path).decode("utf-8", "replace")
    except (UserError, OSError, ValueError):  # of these, a name that no file can have
        return {}
    if path.suffix == ".jsonl":
        return {pointer: number + 1 for pointer in wanted if (number := _record(pointer)) is not None}
    known = dict(_toml_lines(text) if path.suffix == ".toml" else _json_lines(text, _with_parents(wanted)))
    return {pointer: _nearest(pointer, known) for pointer in wanted}


def _record(pointer: str) -> int | None:
    """Index of the record that a pointer into a file of records begins with."""
    first = pointer.split("/")[1] if "/" in pointer else ""
    return int(first) if first.isdecimal() else None


def _with_parents(pointers: Iterable[str]) -> set[str]:
    return {"/".join(parts[:end]) for parts in (one.split("/") for one in pointers) for end in range(1, len(parts) + 1)}


def _nearest(pointer: str, known: Mapping[str, int]) -> int:
    while pointer and pointer not in known:
        pointer = pointer.rpartition("/")[0]
    return known.get(pointer, 1)


def _json_lines(text: str, wanted: set[str]) -> Iterator[tuple[str, int]]:
    """Each wanted pointer that exists, with the line of its key, or of its value in an array."""
    stack: list[tuple[str, int | None]] = []  # pointer of each open container, and the index in it if it is an array
    line, at = 1, 0
    key: str | None = None
    place = ""
    for match in _TOKEN.finditer(text):
        line, at = line + text.count("\n", at, match.start()), match.start()
        token = match[0]
        if token in "}]":
            if stack:
                stack.pop()
            continue
        if token == ",":
            if stack and stack[-1][1] is not None:
                stack[-1] = stack[-1][0], stack[-1][1] + 1
            key = None
            continue
        if token == ":":
            continue
        if stack and stack[-1][1] is None and key is None:
            key = token
            place = stack[-1][0] + pointer([_unescaped(token)])
            if place in wanted:
                yield place, line
                wanted.discard(place)
            continue
        if stack and stack[-1][1] is not None:
            place = f"{stack[-1][0]}/{stack[-1][1]}"
        if place in wanted:
            yield place, line
            wanted.discard(place)
        if token in "{[":
            stack.append((place, 0 if token == "[" else None))
            key = None


def _unescaped(token: str) -> str:
    """The text of a JSON string; other text is returned unchanged."""
    try:
        return str(json.loads(token))
    except ValueError:
        return token


def _toml_lines(text: str) -> Iterator[tuple[str, int]]:
    """Tables and keys of TOML; an array of tables counts as one."""
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if found := _TABLE.match(line):
            table = "/" + found[1].replace(".", "/")
            yield table, number
        elif found := _KEY.match(line):
            yield f"{table}/{found[1].replace('.', '/')}", number
