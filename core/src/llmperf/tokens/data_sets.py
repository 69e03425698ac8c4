"""The data sets that llmperf itself makes, their entropy, and errors of data.

Imports nothing heavy, so that the controller can use it.
"""

from __future__ import annotations

import math
from pathlib import Path

from llmperf.errors import UserError

SYNTHETIC = "synthetic"
PYTHON_STDLIB = "python-stdlib"

SYNTHETIC_BITS = sum(k * 2.0**-k for k in range(1, 8)) + 7 * 2.0**-7
"""Entropy of one synthetic token given those before it: 1.984375 bits."""


def synthetic_fingerprint(vocab_size: int, seq_len: int, seed: int) -> str:
    """SHA-256 of the figures that define synthetic sequences."""
    import hashlib  # takes 3 ms

    return hashlib.sha256(f"data/synthetic/v1/{seed}/{vocab_size}/{seq_len}".encode()).hexdigest()


class DataError(UserError):
    """Data that cannot be used: the setting that selects them, and what is wrong."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__(f"{where}: {message}")
        self.where = where
        self.message = message


def local_path(text: str) -> Path:
    """The path that `data.path` names; DataError for a pipe, a socket or a device, since reading it might never end."""
    try:
        path = Path(text).expanduser()
    except RuntimeError as error:  # ~NAME of an unknown user
        raise DataError("data.path", f"{text}: {error}") from None
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise DataError("data.path", f"{path} is neither a regular file nor a folder")
    return path


def known_entropy(dataset: str) -> float | None:
    """Lower bound of any model's expected loss, in nats per token; None if unknown."""
    return SYNTHETIC_BITS * math.log(2) if dataset == SYNTHETIC else None
