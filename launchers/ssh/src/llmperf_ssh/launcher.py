"""The launcher `ssh`: one OpenSSH client for each node."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from llmperf import read_options, read_toml
from llmperf.errors import UserError
from llmperf.types import Node, NodeCommand, NodeRequest
from llmperf.types.units import Positive

from llmperf_ssh.hosts import Host, parse_host, read_host_file

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


RESOLVE_SECONDS = 20.0


def ssh_client() -> str:
    """Path of the client; UserError if there is none."""
    path = shutil.which("ssh")
    if path is None:
        raise UserError("launcher 'ssh': found no ssh client; install OpenSSH (openssh-client in Debian and Ubuntu)")
    return path


def ssh_argv(client: str, host: Host, options: Options, remote: Sequence[str], *flags: str) -> tuple[str, ...]:
    """The client's argv for a remote command of at most one word, which the login shell of the host reads.

    The client asks nothing, opens no terminal, forwards nothing, and leaves no master connection behind; one that
    exists is used. It ends when the host has not answered for SILENT_SECONDS.
    """
    settings = ("BatchMode=yes", *options.options, "LogLevel=INFO", "ControlMaster=no", "ClearAllForwardings=yes",
                f"ServerAliveInterval={ALIVE_SECONDS}", f"ServerAliveCountMax={ALIVE_COUNT}",
                f"ConnectTimeout={options.connect_timeout_seconds}")  # fmt: skip
    words = [client, *flags, "-T", "-a", "-x"]
    if options.config is not None:
        words += ["-F", _absolute(options.config)]
    if options.identity is not None:
        words += ["-i", _absolute(options.identity)]
    if host.port is not None:
        words += ["-p", str(host.port)]
    for setting in settings:
        words += ["-o", setting]
    return (*words, "--", host.destination, *remote)


def resolved_name(client: str, host: Host, options: Options) -> str:
    """The name or address to which the user's configuration maps a host; UserError if the client cannot read it."""
    argv = ssh_argv(client, host, options, (), "-G")
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=RESOLVE_SECONDS, stdin=subprocess.DEVNULL,
                              errors="replace")  # fmt: skip
    except subprocess.TimeoutExpired:
        raise UserError(f"host {host.name}: ssh -G did not end within {RESOLVE_SECONDS:g} s") from None
    except OSError as error:
        raise UserError(f"launcher 'ssh': cannot start {client}: {error.strerror}") from None
    if done.returncode != 0:
        reason = explanation(host.name, done.returncode, done.stderr) or f"ssh -G: exit status {done.returncode}"
        raise UserError(f"host {host.name}: {reason}")
    names = [line.removeprefix("hostname ") for line in done.stdout.splitlines() if line.startswith("hostname ")]
    return names[-1].strip() if names else host.name


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute())


ALIVE_SECONDS = 5
"""How often a silent host is asked whether it is there."""
ALIVE_COUNT = 3
"""Unanswered questions that a connection survives."""
SILENT_SECONDS = ALIVE_SECONDS * (ALIVE_COUNT + 1)
"""After this time without an answer a connection has ended."""
CONNECTION_FAILED = 255
"""Exit status of the client itself; any other is the remote command's."""
NOT_FOUND = 127
NOT_EXECUTABLE = 126
KILLED = "ssh ended with exit status 255 and no message: its command on the host was killed"
MAX_CHARACTERS = 300

NO_IDENTITY = "`ssh {host} true` must work without a password (name the key with launchers.ssh.identity)"
IDENTITY = "{identity} (launchers.ssh.identity) was tried; its public key must be among the authorized keys of the host"

_CHATTER = re.compile(r"^(Warning: Permanently added|debug\d:|@+\s*$|Pseudo-terminal|\*\* )|^\s*$")


def explanation(host: str, exit_code: int, errors: str, identity: str | None = None) -> str | None:
    """One line on a client, with the user's `identity`, that has ended with this code and errors; None without one."""
    key = NO_IDENTITY.format(host=host) if identity is None else IDENTITY.format(identity=identity)
    lines = [" ".join(line.split()) for line in errors.splitlines() if not _CHATTER.match(line)]
    if exit_code == CONNECTION_FAILED:
        for pattern, advice in read_toml(Path(__file__).with_name("advice.toml")).items():
            # the lines from the end: the first ones may be a banner of the host
            line = next((line for line in reversed(lines) if re.search(pattern, line)), None)
            if line is not None:
                return (
                    f"{line[:MAX_CHARACTERS].rstrip('.')}: {advice.format(host=host, key=key, silent=SILENT_SECONDS)}"
                )
        return f"{lines[-1][:MAX_CHARACTERS]} (ssh, exit status 255)" if lines else KILLED
    if exit_code < 0:
        return f"the ssh client here was killed by signal {-exit_code}"
    if exit_code in (NOT_FOUND, NOT_EXECUTABLE) and lines:
        return (
            f"{lines[-1][:MAX_CHARACTERS]}: install llmperf on the host under the same path as here, or name its Python"
            " with --python"
        )
    return None


_PLAIN = re.compile(r"[A-Za-z0-9_@%+:,./-]+", re.ASCII)
_CHUNK = re.compile(r"[^'\\!]+|.", re.DOTALL)


def quoted(word: str) -> str:
    r"""A word as POSIX shells, zsh and fish read it back unchanged; csh and tcsh too, unless it has a line break.

    Quotes, backslashes and exclamation marks are escaped outside single quotes: inside them, fish knows the escapes
    `\\` and `\'`, and csh replaces `!`.
    """
    if _PLAIN.fullmatch(word):
        return word
    if not word:
        return "''"
    return "".join("\\" + chunk if chunk in "'\\!" else f"'{chunk}'" for chunk in _CHUNK.findall(word))


def command_line(argv: Sequence[str], env: Mapping[str, str]) -> str:
    """The command that replaces the login shell by `argv` with `env`; UserError for what no command line holds."""
    check_names(env, "launcher 'ssh'")
    words = [*(f"{name}={value}" for name, value in env.items()), *argv]
    if any("\0" in word for word in words):
        raise UserError("launcher 'ssh': a command or variable has a NUL character, which no command line can hold")
    return " ".join(["exec", "env", *map(quoted, words)])


CLIENTS_AT_ONCE = 16
"""Clients that resolve names at the same time."""
HOSTS_SHOWN = 8
"""Hosts that a message names."""


class SshLauncher:
    """Brings commands to hosts that the user can log in to without a password."""

    name = "ssh"

    def __init__(self) -> None:
        self._options = Options()

    def nodes(self, request: NodeRequest) -> Sequence[Node]:
        """The hosts of `--hosts`, or else of the host file; UserError for one that is misspelt or has too few slots."""
        options = checked_options(request.options)
        file = None if options.hostfile is None else read_host_file(Path(options.hostfile).expanduser())
        if not request.hosts and file is None:
            raise UserError("launcher 'ssh': expected hosts, as --hosts a,b or launchers.ssh.hostfile in llmperf.toml")
        known = [*(request.hosts or (file.slots if file else ()))]
        hosts = known[: request.nodes]
        if len(hosts) < len(known):
            source = "--hosts" if request.hosts else options.hostfile
            print(
                f"{len(hosts)} of the {len(known)} hosts of {source}: {', '.join(hosts[:HOSTS_SHOWN])};"
                f" the run has nodes={len(hosts)}, and nodes={len(known)} would use all",
                file=sys.stderr,
            )
        parsed = [parse_host(host, "--hosts" if request.hosts else str(options.hostfile)) for host in hosts]
        if file is not None:
            for host in hosts:
                if host not in file.slots:
                    more = f" and {len(file.slots) - HOSTS_SHOWN} more" if len(file.slots) > HOSTS_SHOWN else ""
                    listed = ", ".join([*file.slots][:HOSTS_SHOWN])
                    raise UserError(f"--hosts: {host} is not in {file.path}; it has {listed}{more}")
                slots, wanted = file.slots[host], request.devices
                if slots is not None and wanted is not None and slots < wanted:
                    where = f"{file.path}: host {host}"
                    raise UserError(f"{where}: expected at least {wanted} slots (--devices), found {slots}")
        client = ssh_client()
        with ThreadPoolExecutor(CLIENTS_AT_ONCE) as clients:
            names = list(clients.map(lambda host: resolved_name(client, host, options), parsed))
        addresses = [_address(options, text, host.name, name)
                     for text, host, name in zip(hosts, parsed, names, strict=True)]  # fmt: skip
        _check_addresses(hosts, addresses)
        self._options = options
        return [
            Node(
                host=host,
                address=address,
                interface=options.interface,
                env=options.env,
                devices=file.slots[host] if file else None,
            )
            for host, address in zip(hosts, addresses, strict=True)
        ]

    def commands(self, nodes: Sequence[NodeCommand]) -> Sequence[NodeCommand]:
        """An ssh client for each node, in the user's environment; the remote command gets its variables from `env`."""
        client = ssh_client()
        return [
            NodeCommand(
                node_rank=node.node_rank,
                host=node.host,
                argv=ssh_argv(
                    client, parse_host(node.host, "host"), self._options, [command_line(node.argv, node.env)]
                ),
                env={},
            )
            for node in nodes
        ]

    def explain(self, host: str, exit_code: int, errors: str) -> str | None:
        """Reason why the client of a host ended, with a remedy."""
        return explanation(host, exit_code, errors, self._options.identity)


def _address(options: Options, text: str, name: str, resolved: str) -> str:
    """The address for the other nodes: as the user says, otherwise as the ssh configuration resolves the name."""
    address = options.addresses.get(text, options.addresses.get(name, resolved))
    if parse_host(address, f"{WHERE}.addresses: {text}").name != address:
        raise UserError(f"{WHERE}.addresses: {text}: expected a name or an address, found {address!r}")
    return address


def _check_addresses(hosts: Sequence[str], addresses: Sequence[str]) -> None:
    """UserError if one host's address means every host itself, while there are others."""
    local = [host for host, address in zip(hosts, addresses, strict=True) if _loopback(address)]
    if local and len(local) == len(hosts) > 1:
        raise UserError(
            f"hosts {', '.join(local[:HOSTS_SHOWN])}: expected different machines, found loopback addresses, which all"
            " mean this machine; name it once"
        )
    if local and len(local) < len(hosts):
        raise UserError(
            f"host {local[0]}: the other hosts cannot reach it by a loopback address; add to llmperf.toml:"
            f' [launchers.ssh.addresses] "{local[0]}" = "ADDRESS"'
        )


def _loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost" or address.endswith(".localhost")
