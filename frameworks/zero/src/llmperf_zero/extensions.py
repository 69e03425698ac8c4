"""Where DeepSpeed compiles its operations."""

from __future__ import annotations

import hashlib
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import llmperf


def extensions_dir() -> Path:
    """A folder of this environment alone: what another version compiled crashes, and its lock hangs."""
    facts = [sys.prefix, sys.version, _version("torch"), _version("deepspeed")]
    return llmperf.cache_dir("torch_extensions") / hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
