"""The secret of a run, and how the processes of a job learn it.

`LLMPERF_SECRET` if it is set. Otherwise node 0 writes a random one into a file beside the run folders, which only this
user can read; the other nodes find it there if they share the folder.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from llmperf.errors import UserError

NAME = "LLMPERF_SECRET"
MIN_LENGTH = 16
MAX_FILE_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """Address and secret with which other nodes reach node 0."""

    secret: bytes
    addresses: tuple[tuple[str, int], ...]
    """Empty if the file does not say it."""


def secret_of(env: Mapping[str, str]) -> bytes | None:
    """The secret that the user has set; None if there is none, UserError if it is too short."""
    text = env.get(NAME, "")
    if text and len(text) < MIN_LENGTH:
        raise UserError(f"{NAME}: expected at least {MIN_LENGTH} characters, found {len(text)}")
    return text.encode() if text else None


def meeting_file(out: str, key: str) -> Path:
    """The file of a job beside its run folders."""
    return Path(out) / f".inside-{key}.json"


def publish(path: Path, secret: bytes | None, address: str, port: int) -> bytes:
    """Write a random secret into the file, unless the user has set one; returns it."""
    chosen = secret if secret is not None else secrets.token_hex(32).encode()
    content = {"address": address, "port": port, "secret": None if secret is not None else chosen.decode()}
    new = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            new.unlink()
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(content, file)
        new.replace(path)
    except OSError as error:
        if secret is None:
            raise UserError(f"{path}: cannot write: {error.strerror}; set {NAME} on all nodes") from None
    return chosen


def withdraw(path: Path) -> None:
    """Delete the file."""
    with suppress(OSError):
        path.unlink()


def read_meeting(path: Path, secret: bytes | None) -> Meeting | None:
    """Content of the file, with the user's secret, if any; UserError if others could have read or written it."""
    addresses: tuple[tuple[str, int], ...] = ()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return Meeting(secret=secret, addresses=()) if secret is not None else None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise UserError(f"{path}: expected a file that only this user can read; set {NAME} on all nodes instead")
        text = file.read(MAX_FILE_BYTES)
    try:
        content = json.loads(text)
        addresses = ((str(content["address"]), int(content["port"])),)
        written = content["secret"]
    except (ValueError, KeyError, TypeError):  # being written on a file system that shows it early
        return None
    if secret is None:
        secret = written.encode() if isinstance(written, str) and len(written) >= MIN_LENGTH else None
    return None if secret is None else Meeting(secret=secret, addresses=addresses)
