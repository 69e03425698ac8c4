"""What is known of a data set before it is opened; imports nothing heavy."""

from __future__ import annotations

import math

SYNTHETIC = "synthetic"
PYTHON_STDLIB = "python-stdlib"

SYNTHETIC_BITS = sum(k * 2.0**-k for k in range(1, 8)) + 7 * 2.0**-7
"""Entropy of one synthetic token given those before it: 1.984375 bits."""


def known_entropy(dataset: str) -> float | None:
    """Nats per token below which no model's expected loss can get; None where unknown."""
    return SYNTHETIC_BITS * math.log(2) if dataset == SYNTHETIC else None
