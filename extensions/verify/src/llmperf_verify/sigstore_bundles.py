"""Sigstore bundles of files, made and verified by the `sigstore` program of the package of that name.

A bundle holds the signature, a short-lived certificate for an identity (an e-mail address, or a workflow of continuous
integration) and the proof that a public log has the signature. Signing needs the network; verifying works offline.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from llmperf import printable, read_bytes
from llmperf.errors import UserError
from llmperf.types import Text

from llmperf_verify.ssh_signatures import program

SUFFIX = ".sigstore.json"
"""Ending of a bundle's name, after that of the signed file."""
MAX_BUNDLE_BYTES = 2**20
SECONDS = 120.0
"""Time limit of one verification."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who must have signed."""

    subject: str
    """Name in the certificate: an e-mail address, or the URL of a workflow with its branch."""
    issuer: str
    """URL of the provider that vouches for it."""


def identity(text: str, option: str) -> Identity:
    """The identity in `SUBJECT,ISSUER`; UserError for anything else."""
    subject, comma, issuer = text.rpartition(",")
    if not (comma and subject and issuer.startswith("https://")):
        expected = "SUBJECT,ISSUER such as alice@example.org,https://accounts.google.com"
        raise UserError(f"{option}: expected {expected}, found {text!r:.200}")
    return Identity(subject=subject, issuer=issuer)


def bundle_path(path: Path, witness: bool) -> Path:
    """Path of the bundle of a file: FILE.sigstore.json, of a witness FILE.witness.sigstore.json."""
    return path.with_name(f"{path.name}{'.witness' if witness else ''}{SUFFIX}")


def sign(path: Path, witness: bool) -> Path:
    """Sign a file by the identity of the job or, in a browser, of the user; returns the path of the new bundle."""
    target = bundle_path(path, witness)
    if target.exists():
        raise UserError(Text("{}: is there already; remove it to sign again", target))
    reason = _run(["sign", "--bundle", str(target.absolute()), str(path.absolute())], seconds=None)
    if reason is not None or not target.is_file():
        raise UserError(f"{path}: cannot be signed by sigstore: {reason or 'no bundle was written'}")
    return target


def verify(path: Path, witness: bool, expected: Identity) -> None:
    """UserError unless the bundle beside a file is one of this file by this identity."""
    bundle = bundle_path(path, witness)
    read_bytes(bundle, MAX_BUNDLE_BYTES)
    options = ["--offline", "--bundle", str(bundle.absolute())]
    options += [f"--cert-identity={expected.subject}", f"--cert-oidc-issuer={expected.issuer}"]
    reason = _run(["verify", "identity", *options, str(path.absolute())], SECONDS)
    if reason is not None:
        raise UserError(
            Text("{}: expected a bundle of {} by {}, found another: {}", bundle, path.name, expected.subject, reason)
        )


def _command() -> list[str]:
    """The program beside this interpreter, otherwise the package, otherwise a program on $PATH; UserError if none."""
    from importlib.metadata import PackageNotFoundError, distribution

    beside = Path(sys.executable).parent / "sigstore"
    if os.access(beside, os.X_OK) and beside.is_file():
        return [str(beside)]
    try:
        distribution("sigstore")
        return [sys.executable, "-I", "-m", "sigstore"]
    except PackageNotFoundError:
        pass
    if (elsewhere := program("sigstore")) is None:
        raise UserError("sigstore is not installed; install it with: pip install 'llmperf-verify[sigstore]'")
    return [elsewhere]


def _run(arguments: list[str], seconds: float | None) -> str | None:
    """Run `sigstore`; None if it succeeded, otherwise the last line that it printed."""
    import subprocess

    command = _command()
    environment = {**os.environ, "COLUMNS": "500", "NO_COLOR": "1"}
    try:
        done = subprocess.run(
            [*command, *arguments], stdout=subprocess.PIPE, stderr=None if seconds is None else subprocess.STDOUT,
            stdin=None if seconds is None else subprocess.DEVNULL, timeout=seconds, check=False, env=environment,
            cwd="/",  # the working directory may hold modules of whoever handed in a result
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise UserError(f"sigstore did not answer within {seconds:.0f} s") from None
    if not done.returncode:
        return None
    errors = re.findall(r"ERROR +(.*?)(?: {2,}\S+:\d+)?$", done.stdout.decode(errors="replace"), re.MULTILINE)
    return printable(errors[-1].strip())[:200] if errors else f"sigstore ended with {done.returncode}"
