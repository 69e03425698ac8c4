"""Documents from other people, read without trust: bounded in size, depth and digits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any

import msgspec

from llmperf.errors import UserError
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


def parse_json(data: bytes, where: str) -> Parsed:
    """Strict JSON; UserError that names `where` for anything else, and for what is nested too deep."""
    if (plain := _plain_json(data)) is not None:
        return Parsed(plain)
    repeated: list[str] = []

    def pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(pairs)
        if len(table) < len(pairs):
            seen: set[str] = set()
            repeated.extend(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        return table

    def integer(digits: str) -> int:
        if len(digits) > MAX_DIGITS:
            raise ValueError(f"integer of {len(digits)} digits")
        return int(digits)

    def real(digits: str) -> float:
        if not isfinite(value := float(digits)):
            raise ValueError(f"number {shown(digits)} is too large")
        return value

    def constant(word: str) -> Any:
        raise ValueError(f"{word} is not JSON")

    try:
        text = data.decode("utf-8")
        value = json.loads(text, object_pairs_hook=pairs, parse_int=integer, parse_float=real, parse_constant=constant)
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
    return Parsed(value, tuple(repeated[:10]))


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


def from_toml(table: dict[str, Any], where: str) -> Any:
    """TOML tables as JSON has them; dates, infinities and NaN become text, which no schema takes for a number."""
    _check_depth(table, where)

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [plain(inner) for inner in value]
        known = isinstance(value, (str, int)) or (isinstance(value, float) and isfinite(value))
        return value if known else str(value)

    return plain(table)


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
