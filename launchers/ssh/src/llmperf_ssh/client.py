"""The OpenSSH client: its command lines, the remote command for any login shell, and why a client ends."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from llmperf.errors import UserError

from llmperf_ssh.hosts import Host
from llmperf_ssh.options import Options, check_names

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

ADVICE = (
    (r"REMOTE HOST IDENTIFICATION HAS CHANGED", "the host key has changed; if that is expected, remove the old one with"
     " `ssh-keygen -R {host}` and connect once by hand"),
    (r"Host key verification failed", "the host key is not known; run `ssh {host}` once, compare the fingerprint and"
     " accept it"),
    (r"UNPROTECTED PRIVATE KEY FILE|bad permissions", "ssh ignores a private key that others may read; run"
     " `chmod 600` on it"),
    (r"Too many authentication failures", "the host ends the login after too many keys; name the right one with"
     " launchers.ssh.identity and add 'IdentitiesOnly=yes' to launchers.ssh.options"),
    (r"Permission denied", "the host accepts none of the keys; {key}"),
    (r"Could not resolve hostname", "write its address, a Host of your ssh config, or a group of hosts in"
     " llmperf.toml"),
    (r"Connection refused", "nothing listens there; start sshd on the host, or name its port as HOST:PORT"),
    (r"not responding", f"the host or its link is down: it did not answer for {SILENT_SECONDS} s"),
    (r"banner exchange|kex_exchange_identification|Connection reset by peer during", "something listens there, but it"
     " does not speak SSH or refuses more connections (MaxStartups of sshd)"),
    (r"Connection to .* timed out", "the host takes connections, but the login does not end: its sshd hangs, or large"
     " packets are lost; check the MTU of the interfaces between"),
    (r"timed out|No route to host|Network is unreachable|Host is down", "the host does not answer; check that it runs"
     " and that its address is right"),
    (r"Broken pipe|closed by remote host|Connection (closed|reset) by|Connection to .* closed", "the connection was"
     " lost: the host went down, or its sshd ended it"),
    (r"Bad configuration option|[Bb]ad configuration|Can't open user config", "check the configuration of ssh"),
)  # fmt: skip
"""Patterns of the client's messages, first match first, and what to do."""

NO_IDENTITY = "`ssh {host} true` must work without a password (name the key with launchers.ssh.identity)"
IDENTITY = "{identity} (launchers.ssh.identity) was tried; its public key must be among the authorized keys of the host"

_ADVICE = tuple((re.compile(pattern), advice) for pattern, advice in ADVICE)
_CHATTER = re.compile(r"^(Warning: Permanently added|debug\d:|@+\s*$|Pseudo-terminal|\*\* )|^\s*$")


def explanation(host: str, exit_code: int, errors: str, identity: str | None = None) -> str | None:
    """One line on a client, with the user's `identity`, that has ended with this code and errors; None without one."""
    key = NO_IDENTITY.format(host=host) if identity is None else IDENTITY.format(identity=identity)
    lines = [" ".join(line.split()) for line in errors.splitlines() if not _CHATTER.match(line)]
    if exit_code == CONNECTION_FAILED:
        for pattern, advice in _ADVICE:
            # the lines from the end: the first ones may be a banner of the host
            line = next((line for line in reversed(lines) if pattern.search(line)), None)
            if line is not None:
                return f"{line[:MAX_CHARACTERS].rstrip('.')}: {advice.format(host=host, key=key)}"
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
