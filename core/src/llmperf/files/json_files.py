"""JSON files: typed when they are read, and replaced as a whole when they are written."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from errno import EINVAL, EISDIR, ENXIO
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar

import msgspec

from llmperf.errors import UserError

T = TypeVar("T")

_UNSEEN = "[\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
MAX_DOCUMENT_BYTES = 64 * 2**20
"""Larger plans and results are refused without reading them."""
BLOCK_BYTES = 2**20
"""Size of one read."""


def encode(document: Any) -> bytes:
    """One line of JSON."""
    return msgspec.json.encode(document, enc_hook=_plain)


def _plain(value: object) -> str:
    """A text that is more than a `str`, such as a template with its values."""
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be written")


def encode_pretty(document: Any, indent: int = 2) -> bytes:
    """Indented JSON, on one line with `indent` 0; characters that control a terminal or hide text are escaped."""
    data = msgspec.json.format(encode(document), indent=indent) + b"\n"
    if data.isascii() and b"\x7f" not in data:
        return data
    return re.sub(_UNSEEN, lambda match: f"\\u{ord(match[0]):04x}", data.decode()).encode()


def decode(data: bytes | str, kind: type[T], where: str) -> T:
    """JSON text as `kind`; UserError that names `where` and the path inside if it does not fit."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"{where}: {error}") from None


def convert(value: Any, kind: type[T], where: str) -> T:
    """Plain dicts and lists (from TOML) as `kind`; UserError that names `where` and the path inside."""
    try:
        return msgspec.convert(value, type=kind)
    except msgspec.ValidationError as error:
        raise UserError(f"{where}: {error}") from None


def reshaped(value: T, kind: type[T], where: str) -> T:
    """A dataclass from a plugin as a `kind` at every depth, lists as tuples; UserError as `convert` raises."""
    try:
        return msgspec.convert(builtins(value), type=kind)
    except (msgspec.MsgspecError, ArithmeticError, AttributeError, RecursionError, TypeError, ValueError) as error:
        raise UserError(f"{where}: {error}") from None


def builtins(value: Any) -> Any:
    """A dataclass as plain dicts, lists and scalars."""
    return msgspec.to_builtins(value, enc_hook=_plain)


_IRREGULAR = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file that a user names; OSError for others, such as a pipe, which might never open."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == ENXIO:  # raised when a socket is opened
            raise _irregular(path, os.stat(path).st_mode) from None
        raise
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    raise _irregular(path, mode)


def _irregular(path: Path, mode: int) -> OSError:
    if stat.S_ISDIR(mode):
        return IsADirectoryError(EISDIR, os.strerror(EISDIR), str(path))
    found = _IRREGULAR.get(stat.S_IFMT(mode), "something else")
    return OSError(EINVAL, f"expected a regular file, found {found}", str(path))


def read_bytes(path: Path, limit: int = MAX_DOCUMENT_BYTES) -> bytes:
    """A file's content; UserError if it cannot be read or is larger than `limit`."""
    data = bytearray()
    try:
        with open_regular(path) as file:
            while len(data) <= limit and (block := file.read(BLOCK_BYTES)):  # read(limit) would allocate all of it
                data += block
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    if len(data) > limit:
        raise UserError(f"{path}: larger than the {limit // 2**20} MiB that are read")
    return bytes(data)


def load(path: Path, kind: type[T]) -> T:
    """The document in a file; UserError if unreadable or of another shape."""
    return decode(read_bytes(path), kind, str(path))


def sha256(path: Path) -> str:
    """The digest of a file of any size; OSError if it cannot be read."""
    import hashlib  # takes 3 ms

    digest = hashlib.sha256()
    with open_regular(path) as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def _not_another_kind(path: Path) -> None:
    """UserError for a device, a pipe or a folder, which a file must not replace."""
    if path.exists() and not path.is_file():
        raise UserError(f"{path}: cannot write: expected a regular file, found something else")


def writable(path: Path) -> None:
    """UserError if a file cannot be written there: no such folder, or something else than a file is in its place."""
    _not_another_kind(path)
    if not path.parent.is_dir():
        raise UserError(f"{path}: cannot write: no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise UserError(f"{path}: cannot write: the folder is read-only")


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file under a temporary name, then rename it; UserError if that fails or would replace a device."""
    import tempfile  # takes 3 ms, which reading does not need

    try:
        _not_another_kind(path)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UserError(f"{path}: cannot write: {error.strerror or error}") from None


def save(path: Path, document: Any) -> None:
    """Write a document as indented JSON; on failure an existing file stays as it was."""
    write_bytes(path, encode_pretty(document))


MAX_ANSWERS = 1000
"""Answers that are kept by default."""


class ByValue(Generic[T]):
    """Answers by the values that they depend on. Values are equal if their JSON is, so 1, 1.0 and true are not."""

    def __init__(self, most: int = MAX_ANSWERS) -> None:
        self._most = most
        self._answers: dict[bytes, T] = {}

    def get(self, values: Any, make: Callable[[], T]) -> T:
        """The answer for some dataclasses, containers and scalars; `make` computes it if it is not known yet."""
        key = encode(values)
        if key not in self._answers:
            if len(self._answers) >= self._most:
                self._answers.clear()
            self._answers[key] = make()
        return self._answers[key]
