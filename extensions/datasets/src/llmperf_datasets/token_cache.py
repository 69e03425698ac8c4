"""Tokenised text as `.npy` files in the cache. A single process writes each file, and only complete files appear."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from llmperf.files.json_files import open_regular
from llmperf.files.user_files import cache_dir
from llmperf.tokens.data_sets import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Parts = Callable[[], Iterable["NDArray[np.integer]"]]

FORMAT_VERSION = "1"
READ_BYTES = 1 << 20
HEADER_BYTES = 128


def cached_tokens(key: Iterable[str], dtype: str, parts: Parts) -> Path:
    """The `.npy` file of a token stream, written from `parts` unless it exists with the content that was written.

    A file beside it has the SHA-256 of that content: a file that was changed is written again.
    `key` holds the digests of everything that the tokens depend on. Ranks that start together wait for the first.
    """
    digest = hashlib.sha256("\0".join([FORMAT_VERSION, dtype, *key]).encode()).hexdigest()
    folder = cache_dir("tokens")
    path = folder / f"{digest}.npy"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not _is_whole(path):
            with (folder / f"{digest}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # ends with its process, so that it never blocks a later run
                if not _is_whole(path):
                    _write(path, np.dtype(dtype), parts())
    except OSError as error:
        raise DataError("LLMPERF_CACHE_DIR", f"cannot write tokens to {folder}: {error.strerror or error}") from None
    return path


def _is_whole(path: Path) -> bool:
    """Check whether a file is there with the content that was written."""
    try:
        return path.with_suffix(".sha256").read_text(errors="replace") == file_digest(path)
    except FileNotFoundError:
        return False


def _write(path: Path, dtype: np.dtype[np.integer], parts: Iterable[NDArray[np.integer]]) -> None:
    """Write a one-dimensional array of unknown length; its header is written last, in reserved space."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(bytes(HEADER_BYTES))
            count = 0
            for part in parts:
                file.write(part.astype(dtype, copy=False).tobytes())
                count += len(part)
            facts = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': ({count},), }}"
            start = b"\x93NUMPY\x01\x00" + (HEADER_BYTES - 10).to_bytes(2, "little")
            file.seek(0)
            file.write(start + facts.encode().ljust(HEADER_BYTES - 11) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        # the sum first: without it, a file is written again
        _replace_text(path.with_suffix(".sha256"), file_digest(Path(name)))
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def file_digest(path: Path) -> str:
    """SHA-256 of a file's content; for large files, cached by path, size and modification time."""
    facts = path.stat()
    identity = f"{path.resolve()}\0{facts.st_size}\0{facts.st_mtime_ns}\0{facts.st_ino}"
    memo = cache_dir("digests") / hashlib.sha256(identity.encode()).hexdigest()
    if memo.exists() and len(known := memo.read_text(errors="replace")) == 64:
        return known
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while block := file.read(READ_BYTES):
            digest.update(block)
    if facts.st_size > READ_BYTES:
        with suppress(OSError):  # a cache that cannot be written only costs time
            memo.parent.mkdir(parents=True, exist_ok=True)
            _replace_text(memo, digest.hexdigest())
    return digest.hexdigest()


def _replace_text(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w") as file:
        file.write(text)
    os.replace(name, path)
