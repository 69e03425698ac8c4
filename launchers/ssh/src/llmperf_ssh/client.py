"""The command lines of the OpenSSH client."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from llmperf.errors import UserError

from llmperf_ssh.failures import ALIVE_COUNT, ALIVE_SECONDS, explanation
from llmperf_ssh.hosts import Host
from llmperf_ssh.options import Options

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
