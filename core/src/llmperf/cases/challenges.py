"""Challenge files, and the seed that a run has by a nonce."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from llmperf.errors import UserError
from llmperf.files.json_files import decode, read_bytes
from llmperf.types.challenge import Challenge

NONCE = re.compile("[0-9a-f]{64}")
SEED_BYTES = 4
"""Of the digest that a seed is computed from; seeds have 31 bits, which every framework takes."""


def challenge_seed(nonce: str) -> int:
    """The seed of a challenged run: the first 31 bits of SHA-256 over `llmperf/challenge/v1/NONCE`."""
    digest = hashlib.sha256(f"llmperf/challenge/v1/{nonce}".encode()).digest()
    return int.from_bytes(digest[:SEED_BYTES], "big") >> 1


def read_challenge(path: Path) -> Challenge:
    """The challenge in a file; UserError if it cannot be read, is of another kind, or has no nonce of 256 bits."""
    from llmperf_schemas import CHALLENGE_SCHEMA

    data = read_bytes(path)
    if b"llmperf/challenge/" not in data:
        found = "an archive" if data.startswith(b"PK") else "a file of another kind"
        raise UserError(f"{path}: expected a challenge file, as llmperf challenge issue writes it, found {found}")
    challenge = decode(data, Challenge, str(path))
    if challenge.schema != CHALLENGE_SCHEMA:
        raise UserError(f"{path}: schema: expected {CHALLENGE_SCHEMA!r}, found {challenge.schema[:60]!r}")
    if not NONCE.fullmatch(challenge.nonce):
        raise UserError(f"{path}: nonce: expected 64 hexadecimal digits, found {challenge.nonce[:80]!r}")
    return challenge
