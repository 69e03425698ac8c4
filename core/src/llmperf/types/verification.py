"""What was verified of a result beyond its own files: `verification.json`, written by whoever checks it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from llmperf.types.frozen import dataclass

Level = Literal["consistent", "spot-checked", "rerun", "challenged", "signed", "witnessed"]
"""A level of verification; `docs/trust.md` says what each proves."""
LEVELS: tuple[Level, ...] = ("consistent", "spot-checked", "rerun", "challenged", "signed", "witnessed")
"""All levels, in the order of reports."""
Outcome = Literal["passed", "failed", "impossible"]
"""`impossible`: the check was asked for and could not be made here; the message says why."""


Claim = Literal["speed", "memory", "device-memory", "energy", "peak"]
"""A figure that a submission claims, and that a rerun measures too: `memory` is the peak of a rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimCheck:
    """One figure of a submission beside the same figure of its rerun."""

    claim: Claim
    """Which figure."""
    outcome: Literal["agrees", "better", "not compared"]
    """`better`: than what was measured here, beyond the tolerance; `agrees`: not so, which may also be worse."""
    message: str
    """One line: both figures and how many times as good the submitted one is, or why they were not compared."""
    submitted: float | None = None
    """Seconds per step (median), bytes, joules per token, or FLOP/s of a whole device. None if it was not compared."""
    here: float | None = None
    """The same, measured in the rerun."""
    times_as_good: float | None = None
    """How many times as good the submitted figure is; above 1 it is better than what was measured here."""
    tolerance: float | None = None
    """Up to how many times it may be as good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelCheck:
    """One level of verification, checked for one result."""

    level: Level
    """Which level."""
    outcome: Outcome
    """How the check ended."""
    message: str
    """One line: what was compared, with the largest difference and its bound, or why it could not be."""
    figures: Mapping[str, float | int | str | None] = field(default_factory=dict)
    """The figures of the check by name, such as `largest_difference`, `bound` and the seed to repeat it with."""
    claims: tuple[ClaimCheck, ...] = ()
    """What a rerun that passed compared beside losses and norms; empty for other levels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedResult:
    """What was verified of one result."""

    run_id: str
    """The run."""
    result_sha256: str
    """SHA-256 of its result.json. That file lists the hashes of the plan and the records."""
    checks: tuple[LevelCheck, ...]
    """One for each level that was checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What somebody has verified of the results in a run folder or an archive.

    Who wrote it is only known if it is signed: `llmperf sign verification.json`.
    """

    schema: str
    """Name and version of this document's schema."""
    created: str
    """When: UTC, ISO 8601."""
    llmperf_version: str
    """Version of llmperf that made the checks."""
    ruleset: int
    """Version of the core's rules."""
    results: tuple[VerifiedResult, ...]
    """The results."""
