"""Hosts as the user names them, `[USER@]HOST[:PORT]`, and host files of Open MPI and DeepSpeed, `HOST slots=N`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path

from llmperf import read_bytes
from llmperf.errors import UserError, unknown

_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)
_IPV6 = re.compile(r"[0-9A-Fa-f:.]+(%[A-Za-z0-9_.-]+)?", re.ASCII)
MAX_PORT = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host, or an alias of the user's ssh configuration."""

    name: str
    """Name or address, without brackets."""
    user: str | None
    port: int | None

    @property
    def destination(self) -> str:
        """As the ssh client takes it."""
        return self.name if self.user is None else f"{self.user}@{self.name}"


def parse_host(text: str, where: str) -> Host:
    """A host as the user wrote it; UserError that names `where`, also for a word that ssh could take for an option."""
    user, at, rest = text.rpartition("@")
    name, port = _split_port(rest)
    known = _is_ipv6(name) if ":" in name or rest.startswith("[") else _NAME.fullmatch(name) and len(name) <= 255
    if not known or (at and not _USER.fullmatch(user)):
        raise UserError(f"{where}: expected a host as [USER@]HOST[:PORT], found {text!r}")
    if port is None:
        return Host(name=name, user=user or None, port=None)
    if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) <= MAX_PORT):
        raise UserError(f"{where}: {text!r}: expected a port from 1 to {MAX_PORT}, found {port!r}")
    return Host(name=name, user=user or None, port=int(port))


def _is_ipv6(text: str) -> bool:
    try:
        return _IPV6.fullmatch(text) is not None and bool(IPv6Address(text))
    except ValueError:
        return False


def _split_port(text: str) -> tuple[str, str | None]:
    """Name and port; an IPv6 address with a port is in brackets."""
    if text.startswith("["):
        name, closed, rest = text[1:].partition("]")
        return name if closed else text, rest.removeprefix(":") if rest else None
    if text.count(":") == 1:
        name, _, port = text.partition(":")
        return name, port
    return text, None


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
