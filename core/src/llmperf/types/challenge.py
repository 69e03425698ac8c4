"""Challenges: what a validator issues before a run, and the note of the first result that was handed in for one."""

from __future__ import annotations

from llmperf.types.frozen import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """A nonce that determines the seed of a run, with a deadline: the issuer keeps it and sends a copy."""

    schema: str
    """Name and version of this document's schema."""
    nonce: str
    """256 random bits as 64 hexadecimal digits. The seed of the run is computed from it."""
    issued: str
    """When: UTC, ISO 8601."""
    deadline: str
    """When the result must have been handed in: UTC, ISO 8601."""
    case: str | None = None
    """The case that has to be run, without a change to its contract; None for any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChallengeUse:
    """The first result that passed a check of a challenge, noted beside the issuer's file."""

    nonce: str
    """Of the challenge."""
    run_id: str
    """The run."""
    result_sha256: str
    """SHA-256 of its result.json."""
    received: str
    """When it was handed in: UTC, ISO 8601."""
