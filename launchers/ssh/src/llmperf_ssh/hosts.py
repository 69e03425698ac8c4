"""Hosts as the user names them: `[USER@]HOST[:PORT]`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv6Address

from llmperf.errors import UserError

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
