"""Host files of Open MPI and DeepSpeed: one host a line, `HOST slots=N`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from llmperf import read_bytes
from llmperf.errors import UserError, unknown

from llmperf_ssh.hosts import parse_host

_SETTING = re.compile(r"\s*=\s*")
_KEYS = ("slots", "max_slots")
MAX_SLOTS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFile:
    """The hosts of a file, in its order."""

    path: Path
    slots: Mapping[str, int | None]
    """Devices to use on each host; None where the file does not say."""


def read_host_file(path: Path) -> HostFile:
    """The hosts of a file; UserError with file and line for one that cannot be read, is misspelt or repeated."""
    lines = read_bytes(path).decode(errors="replace").splitlines()
    slots: dict[str, int | None] = {}
    places: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        words = _SETTING.sub("=", line.partition("#")[0]).split()
        if not words:
            continue
        where = f"{path}: line {number}"
        host = words[0]
        parse_host(host, where)
        if host in places:
            raise UserError(f"{where}: {host!r} is in line {places[host]} already; write it once, with slots=N")
        places[host] = number
        slots[host] = _slots(words[1:], where)
    if not slots:
        raise UserError(f"{path}: expected lines such as 'node1 slots=8', found no host")
    return HostFile(path=path, slots=slots)


def _slots(words: list[str], where: str) -> int | None:
    values: dict[str, int] = {}
    for word in words:
        key, equals, text = word.partition("=")
        key = key.replace("-", "_")
        if not equals:
            raise UserError(f"{where}: expected 'slots=N' after the host, found {word!r}")
        if key not in _KEYS:
            raise unknown(where, "key", key, _KEYS)
        if not (text.isascii() and text.isdigit() and 0 < int(text[:6]) <= MAX_SLOTS):
            raise UserError(f"{where}: {key}: expected a number from 1 to {MAX_SLOTS}, found {text!r}")
        values[key] = int(text)
    return values.get("slots")
