"""Text from outside that may be printed and written: escaped, encodable, and without secrets."""

from __future__ import annotations

import datetime
import os
import re
import time
from collections.abc import Iterable, Mapping


def printable(text: str, instead: str | None = None, keep: str = "") -> str:
    """Text that cannot control a terminal: such characters, but for `keep`, become `instead` or escapes."""
    if text.isprintable():
        return text
    return "".join(
        char
        if char.isprintable() or char in keep
        else char.encode("unicode_escape").decode()
        if instead is None
        else instead
        for char in text
    )


def encodable(text: str) -> str:
    """Text that can be written as UTF-8: half a surrogate pair becomes its escape."""
    return text.encode("utf-8", "backslashreplace").decode()


SECRET_NAME = re.compile(r"TOKEN(?!IZER)|PASS|KEY|SECRET|CRED|AUTH", re.IGNORECASE)
"""Part of the names of variables that hold secrets; harmless variables with such names are not recorded either."""
SHORTEST_SECRET = 6
"""Characters; shorter values, such as `true`, are part of too much other text to be replaced in it."""
WITHHELD = "[withheld]"


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables whose names do not suggest a secret."""
    return {name: value for name, value in environment.items() if not SECRET_NAME.search(name)}


def secret_values(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Values of the variables whose names suggest a secret, longest first; paths of existing files are not secrets."""
    values = {value for name, value in environment.items() if SECRET_NAME.search(name)}
    hidden = {value for value in values if len(value) >= SHORTEST_SECRET and not os.path.exists(value)}
    return tuple(sorted(hidden, key=len, reverse=True))


def redacted(text: str, values: Iterable[str]) -> str:
    """The text with `[withheld]` in place of each of the values."""
    for value in values:
        text = text.replace(value, WITHHELD)
    return text


def utc_time(seconds: float | None = None) -> str:
    """A moment in seconds since the epoch, now by default: UTC, ISO 8601, to the second."""
    at = time.time() if seconds is None else seconds
    return datetime.datetime.fromtimestamp(at, datetime.timezone.utc).isoformat(timespec="seconds")
