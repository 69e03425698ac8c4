"""Tokenised text as files in the cache. A single process writes each file, and only complete files appear."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import numpy as np
from llmperf import cache_dir, open_regular, write_bytes
from llmperf.errors import DataError, UserError
from numpy.typing import NDArray

READ_BYTES = 1 << 20


def cached_tokens(
    key: Iterable[str], dtype: str, parts: Callable[[], Iterable[NDArray[np.integer]]]
) -> NDArray[np.integer]:
    """A memory-mapped token stream, written from `parts` unless the cache has the content that was written.

    `key` holds the digests of everything that the tokens depend on. Ranks that start together wait for the first.
    """
    folder = cache_dir("tokens")
    path = folder / f"{hashlib.sha256(chr(0).join([dtype, *key]).encode()).hexdigest()}.ids"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not _is_whole(path):
            with path.with_suffix(".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # ends with its process, so that it never blocks a later run
                if not _is_whole(path):
                    handle, name = tempfile.mkstemp(dir=folder, prefix=f".{path.name}.")
                    try:
                        with os.fdopen(handle, "wb") as file:
                            for part in parts():
                                file.write(part.astype(dtype, copy=False).tobytes())
                            file.flush()
                            os.fsync(file.fileno())
                        # the sum first: without it, a file is written again
                        write_bytes(path.with_suffix(".sha256"), file_digest(Path(name)).encode())
                        os.replace(name, path)
                    finally:
                        Path(name).unlink(missing_ok=True)
        return np.memmap(path, dtype=dtype, mode="r") if path.stat().st_size else np.zeros(0, dtype=dtype)
    except OSError as error:
        raise DataError("LLMPERF_CACHE_DIR", f"cannot write tokens to {folder}: {error.strerror or error}") from None


def _is_whole(path: Path) -> bool:
    """Check whether a file is there with the content that was written."""
    try:
        return path.with_suffix(".sha256").read_text(errors="replace") == file_digest(path)
    except FileNotFoundError:
        return False


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
        with suppress(OSError, UserError):  # a cache that cannot be written only costs time
            memo.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(memo, digest.hexdigest().encode())
    return digest.hexdigest()
