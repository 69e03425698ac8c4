"""The checks beyond the rules that `llmperf validate` was asked for, as findings and as a verification to keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from llmperf import sha256
from llmperf.types import FileFindings, Finding, Result, Text

from llmperf_verify.documents import PLAN, RESULT
from llmperf_verify.rules.levels import BETTER_CLAIM, LEVEL_RULES, NOT_CHECKED
from llmperf_verify.verification import (
    Level,
    LevelCheck,
    Outcome,
    VerifiedResult,
    recorded_levels,
    verification_path,
    write_verification,
)

if TYPE_CHECKING:
    from llmperf_verify.sigstore_bundles import Identity

ADVICE = Text("repeat the rerun on an idle machine, then ask for a witness")
"""Advice on a claim that is better than a rerun measured."""
ALONE: tuple[Level, ...] = ("signed", "witnessed")
"""Levels that are looked at without being asked for: an unknown key is only a note."""


@dataclass(kw_only=True)
class LevelChecks:
    """Makes the checks that the user asked for, for one result after the other, and keeps them for `record`."""

    signers: Path | None = None
    """A file of allowed signers of those who hand in results."""
    witnesses: Path | None = None
    """A file of allowed signers of trusted runners."""
    sigstore: Identity | None = None
    """Who must have signed through sigstore."""
    sigstore_witness: Identity | None = None
    """The trusted runner who must have signed through sigstore."""
    spot: int | None = None
    """Sequences of step 1 to compute again."""
    spot_seed: int | None = None
    """Draws the sequences of an earlier spot check again."""
    rerun: int | Literal["default"] | None = None
    """Steps to train again; by default those of a result's warm-up and a few more."""
    framework: str | None = None
    """Framework of the rerun; None for the submission's own, or another that can."""
    challenges: Path | None = None
    """A challenge, or the folder of those that the user has issued."""
    kept: bool = False
    """`record` will be called."""
    say: Callable[[str], None] = lambda line: None
    """Gets lines of progress of checks that take long."""
    _made: dict[Path, list[VerifiedResult]] = field(default_factory=dict)
    """Results by the run folder or archive."""

    def __call__(
        self, result: Result, path: Path, archive: Path | None, findings: Sequence[Finding]
    ) -> Iterator[Finding]:
        """Findings beside those of the rules: errors for checks that failed or are impossible, notes for others."""
        checks = list(self._checks(result, path, archive))
        if self.challenges is not None and _place(path) != path:
            from llmperf_verify.challenges import challenge_check

            # last, since a result with errors does not use the challenge up
            known = (*findings, *map(_finding, checks))
            checks.append(challenge_check(path.parent, result, self.challenges, findings=known))
        if self.kept:
            entry = VerifiedResult(run_id=result.run_id, result_sha256=sha256(path), checks=tuple(checks))
            self._made.setdefault(archive or _place(path), []).append(entry)
        for check in checks:
            yield _finding(check)
            for claim in check.claims:
                if claim.outcome == "better":
                    yield BETTER_CLAIM.finding("", Text("{}; {}", claim.message, Text(ADVICE)))

    def _checks(self, result: Result, path: Path, archive: Path | None) -> Iterator[LevelCheck]:
        from llmperf_verify.signed import bundle_check, signature_check

        for allowed, witness in ((self.signers, False), (self.witnesses, True)):
            if (check := signature_check(path, archive, allowed, witness=witness)) is not None:
                yield check
        for identity, witness in ((self.sigstore, False), (self.sigstore_witness, True)):
            if identity is not None:
                yield bundle_check(path, archive, identity, witness)
        folder = _place(path)
        if folder == path:
            message = Text("expected {} in its run folder, with {} and the records, found a result alone", RESULT, PLAN)
            asked: dict[Level, object] = {
                "spot-checked": self.spot, "challenged": self.challenges, "rerun": self.rerun,
            }  # fmt: skip
            for level, value in asked.items():
                if value is not None:
                    yield LevelCheck(level=level, outcome="impossible", message=message)
            return
        if self.spot is not None:
            from llmperf_verify.spot import spot_check

            yield spot_check(folder, result, self.spot, seed=self.spot_seed, show=self.say)
        if self.rerun is not None:
            from llmperf_verify.rerun import default_steps, rerun_check

            steps = default_steps(result) if self.rerun == "default" else self.rerun
            yield rerun_check(folder, result, steps, self.framework, self.say)

    def record(self, files: Sequence[FileFindings]) -> Iterator[Path]:
        """Write a verification for each run folder and archive; `files` are all findings. Yields what was written."""
        levels = {rule.code for rule in (*LEVEL_RULES.values(), NOT_CHECKED, BETTER_CLAIM)}
        for place, entries in self._made.items():
            of_place = [finding for file in files if file.path.is_relative_to(place) for finding in file.findings]
            findings = [finding for finding in of_place if finding.code not in levels]
            errors = [finding for finding in findings if finding.severity == "error"]
            outcome: Outcome = "passed"
            message = Text("no errors; the figures were computed again from the plan and the records")
            if errors:
                outcome = "failed"
                message = Text("{} errors, the first {}: {}", len(errors), errors[0].code, errors[0].message)
            elif any(finding.code == "LP705" for finding in findings):
                outcome = "impossible"
                message = Text("no plan and no records, from which the figures could be computed again")
            warnings = sum(finding.severity == "warning" for finding in findings)
            figures = {"errors": len(errors), "warnings": warnings}
            consistent = LevelCheck(level="consistent", outcome=outcome, message=message, figures=figures)
            if (earlier := recorded_levels(verification_path(place))) is not None:
                self.say(f"{verification_path(place)}: replaces an earlier verification: {earlier}")
            yield write_verification(place, [replace(entry, checks=(consistent, *entry.checks)) for entry in entries])


def _place(path: Path) -> Path:
    """The run folder of a result; the file itself if the result lies alone."""
    in_run_folder = path.name == RESULT and (path.parent / PLAN).is_file()
    return path.parent if in_run_folder else path


def _finding(check: LevelCheck) -> Finding:
    """An error if a check failed, or is impossible and was asked for; else a note."""
    rule = LEVEL_RULES[check.level]
    if check.outcome == "impossible" and check.level not in ALONE:
        return NOT_CHECKED.finding("", Text("{}: {}", Text(check.level), check.message))
    finding = rule.finding("", check.message)
    return finding if check.outcome == "failed" else replace(finding, severity="note")
