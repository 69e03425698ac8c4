"""The table `[launchers.ssh]` of `llmperf.toml`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llmperf import read_options
from llmperf.errors import UserError
from llmperf.types.units import Positive

WHERE = "launchers.ssh"
_INTERFACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@-]*", re.ASCII)
_OPTION = re.compile(r"[A-Za-z0-9]+[= ].+", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
MAX_INTERFACE_CHARACTERS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the hosts are reached. Whatever is not set here is as in the user's own configuration of ssh."""

    hostfile: str | None = None
    """Path of a file with lines `HOST slots=N`: the hosts of runs without `--hosts`, and the devices on each."""
    config: str | None = None
    """Path of a configuration file for ssh, in the place of `~/.ssh/config`."""
    identity: str | None = None
    """Path of a private key."""
    options: tuple[str, ...] = ()
    """Further options of ssh, such as `ProxyJump=gateway`."""
    connect_timeout_seconds: Positive = 10
    """Time for a connection to be made."""
    interface: str | None = None
    """Network interface of the hosts over which the ranks reach one another."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables of the ranks on all hosts, which do not get those of the user's shell. They are no place for secrets:
    other users of a host can read them in its list of processes."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Name or address under which other hosts reach a host, by host, where ssh uses another."""


def checked_options(table: Mapping[str, Any]) -> Options:
    """The options of a table; UserError that names the key, what was expected and what was found."""
    options = read_options(table, Options, WHERE)
    for key in ("hostfile", "config", "identity"):
        path = getattr(options, key)
        if path is not None and not Path(path).expanduser().is_file():
            raise UserError(f"{WHERE}.{key}: expected a file, found no {path}")
    for option in options.options:
        if not _OPTION.fullmatch(option):
            raise UserError(f"{WHERE}.options: expected options such as 'ProxyJump=gateway', found {option!r}")
    check_names(options.env, f"{WHERE}.env")
    name = options.interface
    if name is not None and not (_INTERFACE.fullmatch(name) and len(name) <= MAX_INTERFACE_CHARACTERS):
        raise UserError(f"{WHERE}.interface: expected a network interface such as 'eth0', found {name!r}")
    return options


def check_names(env: Iterable[str], where: str) -> None:
    """UserError for a variable whose name is not a plain identifier."""
    for name in env:
        if not _NAME.fullmatch(name):
            raise UserError(f"{where}: cannot set the variable {name!r}: expected letters, digits and _ only")
