"""Rules of the levels of verification, and what a verification says of the result that it lies beside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from llmperf import sha256
from llmperf.errors import UserError
from llmperf.types import Finding, Row, Rule, Severity, Text

from llmperf_verify.documents import RESULT, VERIFICATION
from llmperf_verify.ssh_signatures import signature_path, verified
from llmperf_verify.verification import Verification, stale, standing


def level_rule(code: str, severity: Severity, title: str) -> Rule:
    return Rule(code=code, severity=severity, title=title, kinds=())


SPOT_CHECK = level_rule("LP670", "error", "Losses of step 1 are those of the model, the weights and the data")
RERUN = level_rule("LP671", "error", "The first steps give the same losses when they are trained again")
CHALLENGE = level_rule("LP672", "error", "The seed comes from a challenge, and the result was handed in in time")
SIGNATURE = level_rule("LP673", "error", "The signature is that of the file, by an allowed key")
WITNESS = level_rule("LP674", "error", "A trusted runner signed the result as its witness")
OTHER_RESULT = level_rule("LP675", "warning", "A verification is of the result that it lies beside")
NOT_CHECKED = level_rule("LP676", "error", "A check that was asked for can be made")
BETTER_CLAIM = level_rule("LP677", "warning", "No claim is better than what a rerun on the same device model measured")
LEVEL_RULES = {
    "spot-checked": SPOT_CHECK,
    "rerun": RERUN,
    "challenged": CHALLENGE,
    "signed": SIGNATURE,
    "witnessed": WITNESS,
}
"""The rule of each level but the first, which has all others."""


def beside_verification(document: Verification, path: Path) -> Iterator[Finding]:
    """Check whether a run folder's verification is of its result, and its signature is its own."""
    result = path.parent / RESULT
    if path.name == VERIFICATION and result.is_file():
        digest = sha256(result)
        if all(entry.result_sha256 != digest for entry in document.results):
            message = Text("expected {} with SHA-256 {}, found another: the result was changed since", RESULT, digest)
            yield OTHER_RESULT.finding("/results", message)
    if signature_path(path, "llmperf-verification").is_file():
        try:
            verified(path, "llmperf-verification", None)
        except UserError as error:
            yield SIGNATURE.finding("", str(error))


def verified_note(result: Path) -> Iterator[Finding]:
    """Notes on the verification in the run folder of a result, and whether its signer is known."""
    if not (result.parent / VERIFICATION).is_file():
        return
    try:
        known = standing(result)
    except UserError:
        return  # an error of verification.json itself
    if known is not None:
        unknown = Text("{}, signer unknown)", known.label.removesuffix(")"))
        text = Text("verified: {}", known.label) if known.by else unknown
        yield replace(OTHER_RESULT.finding("", Text("{} says: {}", VERIFICATION, text)), severity="note")


def verification_row(result: Path) -> Row:
    """The levels of verification that somebody recorded beside a result; unknown without a record."""
    row = Row(key="verification", label="verified", value=None)
    try:
        if (known := standing(result)) is not None:
            return replace(row, value=known.passed or Text("nothing verified"), text=known.label)
        outdated = stale(result)
    except UserError as error:
        return replace(row, text=Text("unknown: {}", error), own_words=True)
    return replace(row, text="verification of another result.json", own_words=True) if outdated else row
