"""The seed that a run has by the nonce of a challenge."""

from __future__ import annotations

import hashlib
import re

NONCE = re.compile("[0-9a-f]{64}")
SEED_BYTES = 4
"""Bytes of the digest that a seed is computed from; seeds have 31 bits, which every framework takes."""


def challenge_seed(nonce: str) -> int:
    """The seed of a challenged run: the first 31 bits of SHA-256 over `llmperf/challenge/v1/NONCE`."""
    digest = hashlib.sha256(f"llmperf/challenge/v1/{nonce}".encode()).digest()
    return int.from_bytes(digest[:SEED_BYTES], "big") >> 1
