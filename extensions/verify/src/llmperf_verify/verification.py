"""`verification.json`: what somebody verified of results beyond the rules, beside the result or the archive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from llmperf import __version__, encode_pretty, sha256, utc_time, write_bytes
from llmperf.errors import UserError
from llmperf.types import Text

from llmperf_verify.documents import ARCHIVES, VERIFICATION, load
from llmperf_verify.ssh_signatures import signature_path, trusted_keys, verified

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
    """The claim."""
    outcome: Literal["agrees", "better", "not compared"]
    """`better`: than what was measured here, beyond the tolerance; `agrees`: not so, which may also be worse."""
    message: str
    """One line: both figures and how many times as good the submitted one is, or why they were not compared."""
    submitted: float | None = None
    """Seconds per step (median), bytes, joules per token, or FLOP/s of a whole device. None if it was not compared."""
    here: float | None = None
    """The same, measured in the rerun."""
    times_as_good: float | None = None
    """Factor by which the submitted figure is better; above 1 it is better than what was measured here."""
    tolerance: float | None = None
    """Up to how many times it may be as good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelCheck:
    """One level of verification, checked for one result."""

    level: Level
    """The level."""
    outcome: Outcome
    """Outcome of the check."""
    message: str
    """One line: what was compared, with the largest difference and its bound, or why it could not be."""
    figures: Mapping[str, float | int | str | None] = field(default_factory=dict)
    """The figures of the check by name, such as `largest_difference`, `bound` and the seed to repeat it with."""
    claims: tuple[ClaimCheck, ...] = ()
    """Comparisons of a rerun that passed, beside losses and norms; empty for other levels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedResult:
    """Verified levels of one result."""

    run_id: str
    """The run."""
    result_sha256: str
    """SHA-256 of its result.json. That file lists the hashes of the plan and the records."""
    checks: tuple[LevelCheck, ...]
    """One for each level that was checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Verification of the results in a run folder or an archive; who wrote it is only known if it is signed."""

    schema: str
    """Name and version of this document's schema."""
    created: str
    """Time of verification: UTC, ISO 8601."""
    llmperf_version: str
    """Version of llmperf that made the checks."""
    ruleset: int
    """Version of the core's rules."""
    results: tuple[VerifiedResult, ...]
    """The results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Knowledge of a result beyond its own files."""

    checks: tuple[LevelCheck, ...]
    """The checks of the levels that were asked for, in the order of the levels."""
    by: str | None
    """Who made them; None if that is not signed by a key of `[trust] verifiers`."""

    @property
    def passed(self) -> str | None:
        """The levels that passed, joined by commas; None if none did."""
        return ", ".join(check.level for check in self.checks if check.outcome == "passed") or None

    @property
    def label(self) -> str:
        """`spot-checked, rerun (by alice@example.org)`, or `(claimed)` without a known signature."""
        failed = [check.level for check in self.checks if check.outcome == "failed"]
        text = self.passed or Text("nothing verified")
        text += Text("; failed: {}", ", ".join(failed)) if failed else ""
        impossible = [check.level for check in self.checks if check.outcome == "impossible"]
        text += Text("; not possible: {}", ", ".join(impossible)) if impossible else ""
        claims = [claim for check in self.checks for claim in check.claims]
        better = [claim.claim for claim in claims if claim.outcome == "better"]
        speed = [claim.outcome for claim in claims if claim.claim == "speed"]
        if better:
            text += Text("; better than the rerun: {}", ", ".join(better))
        elif speed:
            text += Text("; speed compared") if "agrees" in speed else Text("; speed not compared")
        return Text("{} (by {})", text, self.by) if self.by else Text("{} (claimed)", text)


def verification_path(path: Path) -> Path:
    """Path of the verification of a run folder or of an archive."""
    return path / VERIFICATION if path.is_dir() else path.with_name(f"{path.name}.{VERIFICATION}")


def write_verification(path: Path, results: Sequence[VerifiedResult]) -> Path:
    """Write the verification of a run folder or an archive in place of an earlier one; returns its path."""
    from llmperf.validation import RULESET
    from llmperf_schemas import VERIFICATION_SCHEMA

    target = verification_path(path)
    document = Verification(
        schema=VERIFICATION_SCHEMA,
        created=utc_time(),
        llmperf_version=__version__,
        ruleset=RULESET,
        results=tuple(results),
    )
    signature_path(target, "llmperf-verification").unlink(missing_ok=True)
    write_bytes(target, encode_pretty(document))
    return target


def recorded_levels(path: Path) -> str | None:
    """The levels that a verification says passed, joined by commas; None if there is no file that can be read."""
    try:
        results = load(path, Verification).results if path.is_file() else ()
    except UserError:
        return Text("one that cannot be read")
    passed = {check.level for result in results for check in result.checks if check.outcome == "passed"}
    return ", ".join(level for level in LEVELS if level in passed) or None


def stale(result: Path) -> bool:
    """Check whether the verification beside a result is of another, such as this one before it was changed."""
    paths = [path for path in (result.parent / VERIFICATION, verification_path(result)) if path.is_file()]
    digest = sha256(result) if paths else ""
    return bool(paths) and not any(
        entry.result_sha256 == digest for path in paths for entry in load(path, Verification).results
    )


def standing(result: Path) -> Standing | None:
    """Standing of a result by a verification beside it, its folder or archive; None if there is none for it."""
    run = result.absolute().parent
    places = (
        run / VERIFICATION,
        verification_path(result),
        run.parent / VERIFICATION,
        *(Path(f"{run.parent}{suffix}.{VERIFICATION}") for suffix in ARCHIVES),
    )
    for path in (path for path in places if path.is_file()):
        digest = sha256(result)
        entries = [entry for entry in load(path, Verification).results if entry.result_sha256 == digest]
        checks = [check for entry in entries for check in entry.checks]
        if checks:
            checks.sort(key=lambda check: LEVELS.index(check.level))
            return Standing(checks=tuple(checks), by=_signer(path))
    return None


def _signer(path: Path) -> str | None:
    """Who signed a verification, by the user's configuration; UserError for a wrong signature."""
    if not signature_path(path, "llmperf-verification").is_file():
        return None
    verifiers = trusted_keys("verifiers")
    try:
        return verified(path, "llmperf-verification", verifiers).principal
    except UserError:
        if verifiers is None:
            raise
        verified(path, "llmperf-verification", None)  # raises for a signature that is not of this file
        return None
