"""Where DeepSpeed compiles its operations."""

from __future__ import annotations

import fcntl
import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import llmperf


def extensions_dir() -> Path:
    """A folder of this environment alone: what another version compiled crashes, and its lock hangs."""
    facts = [sys.prefix, sys.version, _version("torch"), _version("deepspeed")]
    return llmperf.cache_dir("torch_extensions") / hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16]


@contextmanager
def compiling() -> Iterator[None]:
    """One rank of this host compiles at a time; what a killed rank left locked is unlocked first.

    torch marks a build by a file named `lock`, which outlives its process and would be waited for without end. Here
    the system holds the lock, and lets it go with the process.
    """
    folder = Path(os.environ.get("TORCH_EXTENSIONS_DIR") or extensions_dir())
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "llmperf.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for left in folder.rglob("lock"):
            left.unlink(missing_ok=True)
        yield


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
