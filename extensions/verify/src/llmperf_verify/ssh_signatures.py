"""SSH signatures of files, made and verified by `ssh-keygen -Y` of OpenSSH 8.2 or later.

The signature of FILE is the file FILE.sig beside it. Each signature has a namespace, so that one that was made for
another purpose is refused. Everything works offline.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

from llmperf import open_regular, own_config, printable, read_bytes, read_options, write_bytes
from llmperf.errors import UserError
from llmperf.types import Text

if TYPE_CHECKING:
    import subprocess

SUFFIX = ".sig"
"""Ending of a signature's name, after that of the signed file."""
Namespace = Literal["llmperf", "llmperf-witness", "llmperf-verification"]
"""Statements of a signature: the signer made the result, ran it or watched the run, or checked it."""
MAX_SIGNATURE_BYTES = 64 * 2**10
MAX_SIGNERS_BYTES = 2**20
KEY_TYPES = {
    "ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com",
}  # fmt: skip
"""Types of SSH keys."""
SECONDS = 60.0
"""Time limit of one call of ssh-keygen; none when signing, since an agent may ask the user to touch a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A signature that is valid for its file."""

    key: str
    """Fingerprint of the key: `SHA256:...`."""
    principal: str | None
    """Who that is by the file of allowed signers; None if none was given."""


def signature_path(path: Path, namespace: Namespace) -> Path:
    """Path of the signature of a file: FILE.sig, of a witness FILE.witness.sig."""
    middle = ".witness" if namespace == "llmperf-witness" else ""
    return path.with_name(f"{path.name}{middle}{SUFFIX}")


def sign(path: Path, key: Path, namespace: Namespace) -> Path:
    """Sign a file with an SSH key, private or the public half of one in an agent; returns the new signature's path."""
    target = signature_path(path, namespace)
    if target.exists():
        raise UserError(Text("{}: is there already; remove it to sign again", target))
    if not key.is_file():
        raise UserError(f"--key: expected an SSH key, found no file {key}")
    done = _keygen(["sign", "-q", "-n", namespace, "-f", str(key)], path, seconds=None)
    if done.returncode or not done.stdout.startswith(b"-----BEGIN SSH SIGNATURE-----"):
        raise UserError(f"{path}: cannot be signed with {key}: {_reason(done)}")
    write_bytes(target, done.stdout)
    return target


def verified(path: Path, namespace: Namespace, signers: Path | None) -> Signature:
    """The signature beside a file; UserError if it is missing, not its own, or not of the allowed `signers`."""
    signature = signature_path(path, namespace)
    read_bytes(signature, MAX_SIGNATURE_BYTES)
    done = _keygen(["check-novalidate", "-n", namespace, "-s", str(signature)], path)
    fingerprint = re.search(rb"SHA256:[A-Za-z0-9+/=]+", done.stdout)
    if done.returncode or fingerprint is None:
        message = Text("{}: expected the signature of {}, found another: {}", signature, path.name, _reason(done))
        raise UserError(message)
    key = fingerprint[0].decode()
    if signers is None:
        return Signature(key=key, principal=None)
    if not signers.is_file():
        raise UserError(Text("expected a file of allowed signers, found no file {}", signers))
    named = _keygen(["find-principals", "-s", str(signature), "-f", str(signers)], None)
    for principal in named.stdout.decode(errors="replace").splitlines() if not named.returncode else ():
        options = ["verify", "-n", namespace, "-s", str(signature), "-f", str(signers), "-I", principal]
        if not _keygen(options, path).returncode:
            return Signature(key=key, principal=printable(principal))
    options = ["verify", "-n", namespace, "-s", str(signature), "-f", str(signers), "-I"]
    first = named.stdout.decode(errors="replace").splitlines()[:1]
    if any(b"signature namespace" in _keygen([*options, principal], path).stderr for principal in first):
        raise UserError(
            Text(
                '{}: {} lists the key {}, but for other namespaces; its line needs namespaces="{}", or no namespaces',
                signature,
                signers,
                key,
                namespace,
            )
        )
    raise UserError(Text("{}: expected a key of {} for {}, found {}", signature, signers, namespace, key))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedKeys:
    """`[trust]`: files of allowed signers, as ssh-keygen(1) describes them, relative to the configuration file."""

    signers: str | None = None
    """Keys of those who hand in results, as `llmperf validate --signers`."""
    witnesses: str | None = None
    """Keys of trusted runners, as `llmperf validate --witnesses`."""
    verifiers: str | None = None
    """Keys of those whose verifications reports name."""


def trusted_keys(which: Literal["signers", "witnesses", "verifiers"]) -> Path | None:
    """A file of `[trust]` in the user's own configuration; None without one. UserError if it does not exist."""
    config = own_config()
    name: str | None = getattr(read_options(config.tables.trust, TrustedKeys, f"{config.path}: trust"), which)
    if name is None or config.path is None:
        return None
    path = config.path.parent / Path(name).expanduser()
    if not path.is_file():
        raise UserError(f"{config.path}: trust.{which}: expected a file of allowed signers, found no file {path}")
    return path


def check_allowed_signers(path: Path, where: str) -> None:
    """UserError unless a file has a line of an allowed signer: NAME, options if any, type of key, key."""
    lines = [line.split() for line in read_bytes(path, MAX_SIGNERS_BYTES).decode(errors="replace").splitlines()]
    signers = [words for words in lines if words and not words[0].startswith("#")]
    if not any(word in KEY_TYPES for words in signers for word in words[1:-1]):
        found = "a key without a name" if signers and signers[0][0] in KEY_TYPES else Text("none")
        expected = "a line `NAME KEYTYPE KEY`, such as `alice@example.org ssh-ed25519 AAAA...`"
        raise UserError(f"{where}: {path}: expected {expected}, found {found}")


def _keygen(
    options: list[str], signed: Path | None, seconds: float | None = SECONDS
) -> subprocess.CompletedProcess[bytes]:
    """`ssh-keygen -Y ...` with a file as its input."""
    import subprocess  # takes 5 ms, and most results are not signed

    if (keygen := program("ssh-keygen")) is None:
        raise UserError("ssh-keygen is not installed; it comes with OpenSSH 8.2 or later")
    stdin: BinaryIO | None = None
    try:
        stdin = open_regular(signed) if signed else None
        return subprocess.run(
            [keygen, "-Y", *options],
            stdin=stdin or subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError as error:
        raise UserError(f"{error.filename}: no such file") from None
    except subprocess.TimeoutExpired:
        raise UserError(f"ssh-keygen did not answer within {seconds:.0f} s") from None
    except OSError as error:
        raise UserError(Text("{}: {}", signed, error.strerror or error)) from None
    finally:
        if stdin is not None:
            stdin.close()


def _reason(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = [line for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    return printable(lines[-1])[:200] if lines else f"ssh-keygen ended with {done.returncode}"


def program(name: str) -> str | None:
    """The path of a program in the absolute folders of $PATH: the working directory may be a submission's."""
    return shutil.which(name, path=os.pathsep.join(filter(os.path.isabs, os.get_exec_path())))
