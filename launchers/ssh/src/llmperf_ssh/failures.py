"""Reasons why an ssh client ends, with remedies."""

from __future__ import annotations

import re

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
    """One line on a client that has ended with `exit_code` after printing `errors`; None if there is nothing to say.

    `identity` is the key that the user has named.
    """
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
