"""Data sets, packing, and draws. What is here imports nothing heavy, so that the controller can use it."""

from __future__ import annotations

import math

SYNTHETIC = "synthetic"
PYTHON_STDLIB = "python-stdlib"

SYNTHETIC_BITS = sum(k * 2.0**-k for k in range(1, 8)) + 7 * 2.0**-7
"""Entropy of one synthetic token given those before it: 1.984375 bits."""


def synthetic_fingerprint(vocab_size: int, seq_len: int, seed: int) -> str:
    """SHA-256 of the figures that define synthetic sequences."""
    import hashlib  # takes 3 ms

    return hashlib.sha256(f"data/synthetic/v1/{seed}/{vocab_size}/{seq_len}".encode()).hexdigest()


def known_entropy(dataset: str) -> float | None:
    """Lower bound of any model's expected loss, in nats per token; None if unknown."""
    return SYNTHETIC_BITS * math.log(2) if dataset == SYNTHETIC else None
