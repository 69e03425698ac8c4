"""Signed and witnessed: whose keys signed a result or the archive that it came in."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from llmperf.errors import UserError
from llmperf.types import Row, Text

from llmperf_verify.sigstore_bundles import Identity, bundle_path, verify
from llmperf_verify.ssh_signatures import Namespace, check_allowed_signers, signature_path, trusted_keys, verified
from llmperf_verify.verification import Level, LevelCheck


def signature_check(
    result: Path, archive: Path | None, allowed: Path | None, *, witness: bool = False
) -> LevelCheck | None:
    """Who signed a result, or else its archive, as its maker or witness; None if nobody did and nobody must have."""
    level: Level = "witnessed" if witness else "signed"
    namespace: Namespace = "llmperf-witness" if witness else "llmperf"
    files = [result, *([] if archive is None else [archive])]
    signed = next((path for path in files if signature_path(path, namespace).is_file()), None)
    if signed is None:
        if allowed is None:
            return None
        names = " or ".join(signature_path(path, namespace).name for path in files)
        return LevelCheck(level=level, outcome="failed", message=Text("expected a signature {}, found none", names))
    try:
        signature = verified(signed, namespace, allowed)
        configured = None if allowed else trusted_keys("witnesses" if witness else "signers")
        if configured is not None:  # nobody asked for it: its signer counts if the user's `[trust]` knows the key
            with suppress(UserError):
                signature = verified(signed, namespace, configured)
    except UserError as error:
        return LevelCheck(level=level, outcome="failed", message=str(error))
    figures = {"key": signature.key, "principal": signature.principal, "file": signed.name}
    if signature.principal is not None:
        message = Text("{} was signed by {} with key {}", signed.name, signature.principal, signature.key)
        return LevelCheck(level=level, outcome="passed", message=message, figures=figures)
    option = "--witnesses" if level == "witnessed" else "--signers"
    message = Text("{} was signed with key {}; {} FILE shows whose key that is", signed.name, signature.key, option)
    return LevelCheck(level=level, outcome="impossible", message=message, figures=figures)


def bundle_check(result: Path, archive: Path | None, expected: Identity, witness: bool) -> LevelCheck:
    """Check whether a result, or else the archive, has a sigstore bundle by an identity, its maker or witness."""
    level: Level = "witnessed" if witness else "signed"
    files = [result, *([] if archive is None else [archive])]
    signed = next((path for path in files if bundle_path(path, witness).is_file()), None)
    if signed is None:
        names = " or ".join(bundle_path(path, witness).name for path in files)
        message = Text("expected a sigstore bundle {}, found none", names)
        return LevelCheck(level=level, outcome="failed", message=message)
    try:
        verify(signed, witness, expected)
    except UserError as error:
        return LevelCheck(level=level, outcome="failed", message=str(error))
    figures = {"principal": expected.subject, "issuer": expected.issuer, "file": signed.name}
    message = Text("{} was signed by {} through sigstore ({})", signed.name, expected.subject, expected.issuer)
    return LevelCheck(level=level, outcome="passed", message=message, figures=figures)


def signature_row(signers: Path) -> Callable[[Path, Path], Row]:
    """Makes the row on who signed a result, or else its archive; None and the reason where no allowed key did."""
    check_allowed_signers(signers, "--signers")

    def row(result: Path, archive: Path) -> Row:
        principal = None
        signed = next((path for path in (result, archive) if signature_path(path, "llmperf").is_file()), None)
        try:
            principal = None if signed is None else verified(signed, "llmperf", signers).principal
            text = "not signed" if principal is None else f"signed by {principal}"
        except UserError:
            text = "no valid signature"
        return Row(key="signature", label="signature", value=principal, text=text)

    return row
