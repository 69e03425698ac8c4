"""Challenges: issued by a validator before a run, and checked when the result is handed in. Files only, no server."""

from __future__ import annotations

import datetime
import os
import re
import secrets
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from llmperf import challenge_seed, decode, encode_pretty, read_bytes, sha256, write_bytes
from llmperf.errors import UserError
from llmperf.types import Finding, Result, Text

from llmperf_verify.documents import RESULT, load
from llmperf_verify.verification import LevelCheck, Outcome

USED = ".used.json"
"""Ending of the note beside a challenge file, in place of `.json`."""
MOST_CHALLENGES = 10_000
"""Files in a folder of challenges that are read."""
CLOCK_SECONDS = 300.0
"""Most seconds by which the clocks of issuer and submitter may differ."""
NONCE = re.compile("[0-9a-f]{64}")
ALONE = ("LP705", "LP805")
"""Rules of core that find no plan and no records beside a result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """A nonce that determines the seed of a run, with a deadline: the issuer keeps it and sends a copy."""

    schema: str
    """Name and version of this document's schema."""
    nonce: str
    """256 random bits as 64 hexadecimal digits. The seed of the run is computed from it."""
    issued: str
    """Time of issue: UTC, ISO 8601."""
    deadline: str
    """Time by which the result must have been handed in: UTC, ISO 8601."""
    case: str | None = None
    """The case that has to be run, without a change to its contract; None for any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChallengeUse:
    """The first result that passed a check of a challenge, noted beside the issuer's file."""

    nonce: str
    run_id: str
    result_sha256: str
    """SHA-256 of its result.json."""
    received: str
    """Time at which it was handed in: UTC, ISO 8601."""


def read_challenge(path: Path) -> Challenge:
    """The challenge in a file; UserError if it cannot be read, is of another kind, or has no nonce of 256 bits."""
    from llmperf_schemas import CHALLENGE_SCHEMA

    data = read_bytes(path)
    if b"llmperf/challenge/" not in data:
        found = Text("an archive") if data.startswith(b"PK") else "a file of another kind"
        raise UserError(f"{path}: expected a challenge file, as llmperf challenge issue writes it, found {found}")
    challenge = decode(data, Challenge, str(path))
    if challenge.schema != CHALLENGE_SCHEMA:
        raise UserError(f"{path}: schema: expected {CHALLENGE_SCHEMA!r}, found {challenge.schema[:60]!r}")
    if not NONCE.fullmatch(challenge.nonce):
        raise UserError(f"{path}: nonce: expected 64 hexadecimal digits, found {challenge.nonce[:80]!r}")
    return challenge


def issue(seconds: float, case: str | None, output: Path | None) -> Path:
    """Write a new challenge, with a deadline in so many seconds, to a new `.json` file or a folder; its path."""
    from llmperf_schemas import CHALLENGE_SCHEMA

    now = datetime.datetime.now(datetime.timezone.utc)
    challenge = Challenge(
        schema=CHALLENGE_SCHEMA,
        nonce=secrets.token_hex(32),
        issued=_text(now),
        deadline=_text(now + datetime.timedelta(seconds=seconds)),
        case=case,
    )
    path = output or Path()
    if path.suffix != ".json":
        try:
            path.mkdir(exist_ok=True)
        except OSError as error:
            raise UserError(f"{path}: cannot make the folder: {error.strerror or error}") from None
        path = path / f"challenge-{challenge.nonce[:8]}.json"
    if path.exists():
        raise UserError(Text("{}: a file of that name exists; a challenge is not replaced", path))
    write_bytes(path, encode_pretty(challenge))
    return path


def challenge_check(
    folder: Path,
    result: Result,
    issued: Path,
    received: datetime.datetime | None = None,
    *,
    findings: Sequence[Finding],
) -> LevelCheck:
    """Check whether a result answers a challenge that is in `issued`, a file or the issuer's folder.

    Its seed is that of the nonce, it began after the challenge was issued, was handed in (`received`) before the
    deadline, and is of its case. The first one is noted beside the challenge, unless it has errors in `findings`
    or lies there without its plan and records.
    """
    if result.challenge is None:
        return _check("failed", Text("its seed is not of a challenge: expected llmperf run --challenge FILE"))
    found = _issued(issued, result.challenge)
    if found is None:
        return _check("failed", Text("its challenge {} is not among those of {}", result.challenge[:8], issued))
    path, challenge = found
    digest, note = sha256(folder / RESULT), path.with_name(path.name.removesuffix(".json") + USED)
    earlier = load(note, ChallengeUse) if note.exists() else None
    if earlier is not None and earlier.result_sha256 == digest:
        later = Text("; --received is ignored: to correct the time, delete that file first")
        ignored = "" if received is None else later
        received = moment(earlier.received, f"{note}: received")
        vouched = Text("noted in {}{}", note.name, ignored)
    else:
        vouched = Text("the time of this check") if received is None else Text("as the validator says")
        received = received or datetime.datetime.now(datetime.timezone.utc)
    if (wrong := _wrong(challenge, path, result, received)) is not None:
        return _check("failed", wrong, challenge, received)
    if earlier is not None and earlier.result_sha256 != digest:
        return _check("failed", _answered(earlier, result, note), challenge, received)
    errors = [finding for finding in findings if finding.severity == "error"]
    if any(finding.code in ALONE for finding in findings):
        message = Text("no plan and no records beside it: challenge {} is not used up", challenge.nonce[:8])
        return _check("impossible", message, challenge, received)
    if errors:
        count = Text("{} error" if len(errors) == 1 else "{} errors", len(errors))
        wrong = Text("llmperf validate finds {}, the first {}: {}", count, errors[0].code, errors[0].message)
        message = Text("{}; challenge {} is not used up", wrong, challenge.nonce[:8])
        return _check("failed", message, challenge, received)
    use = ChallengeUse(nonce=challenge.nonce, run_id=result.run_id, result_sha256=digest, received=_text(received))
    first = earlier or _noted(note, use)
    if first.result_sha256 != digest:
        return _check("failed", _answered(first, result, note), challenge, received)
    message = Text(
        "challenge {}, issued {}: handed in {} ({})", challenge.nonce[:8], challenge.issued, first.received, vouched
    )
    return _check("passed", Text("{}, deadline {}", message, challenge.deadline), challenge, received)


def _check(
    outcome: Outcome, message: str, challenge: Challenge | None = None, received: datetime.datetime | None = None
) -> LevelCheck:
    figures = {}
    if challenge is not None and received is not None:
        figures = {name: getattr(challenge, name) for name in ("nonce", "issued", "deadline")}
        figures["received"] = _text(received)
    return LevelCheck(level="challenged", outcome=outcome, message=message, figures=figures)


def _answered(first: ChallengeUse, result: Result, note: Path) -> str:
    """A message that a challenge was answered before, and by what."""
    if first.run_id == result.run_id:
        what = Text("this run has answered challenge {} with another {}", first.nonce[:8], RESULT)
    else:
        what = Text("another result has answered challenge {}, of run {}", first.nonce[:8], first.run_id[:80])
    digest = Text("SHA-256 {}..., handed in {}", first.result_sha256[:16], first.received)
    return Text("{} ({}); to take that answer back, delete {}", what, digest, note.name)


def _issued(where: Path, nonce: str) -> tuple[Path, Challenge] | None:
    """The file and the challenge of a nonce; None if it was not issued. UserError if `where` cannot be read."""
    if not where.is_dir():
        challenge = read_challenge(where)
        return (where, challenge) if challenge.nonce == nonce else None
    files = [path for path in sorted(where.glob("*.json")) if not path.name.endswith(USED)]
    if len(files) > MOST_CHALLENGES:
        raise UserError(Text("{}: expected at most {} challenges, found {}", where, MOST_CHALLENGES, len(files)))
    for path in files:
        challenge = read_challenge(path)
        if challenge.nonce == nonce:
            return path, challenge
    return None


def _wrong(challenge: Challenge, path: Path, result: Result, received: datetime.datetime) -> str | None:
    """The first reason why a result does not answer a challenge; None if there is none."""
    issued, deadline = moment(challenge.issued, f"{path}: issued"), moment(challenge.deadline, f"{path}: deadline")
    name, tolerance = challenge.nonce[:8], datetime.timedelta(seconds=CLOCK_SECONDS)
    if (expected := challenge_seed(challenge.nonce)) != result.contract.seed:
        return Text("expected seed {} (of challenge {}), found {}", expected, name, result.contract.seed)
    if challenge.case is not None and result.case != challenge.case:
        return Text("expected case {} (of challenge {}), found {}", challenge.case, name, result.case[:80])
    if challenge.case is not None and result.variant:
        return Text("expected case {} as it is (of challenge {}), found a variant", challenge.case, name)
    if received > deadline:
        return Text("handed in {}, after the deadline {} of challenge {}", _text(received), challenge.deadline, name)
    try:
        began, ended = moment(result.created, "created"), moment(result.finished, "finished")
    except UserError as error:
        return str(error)
    if began < issued - tolerance:
        return Text("the run began {}, before challenge {} was issued: {}", result.created, name, challenge.issued)
    if ended > received + tolerance:
        return Text("the run ended {}, after it was handed in: {}", result.finished, _text(received))
    return None


def _noted(path: Path, use: ChallengeUse) -> ChallengeUse:
    """Note the first result that answers a challenge; the note that is there, if another process was faster."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(encode_pretty(use))
                file.flush()
                os.fsync(file.fileno())
            os.link(name, path)  # fails if there is a note already
        finally:
            Path(name).unlink(missing_ok=True)
    except FileExistsError:
        return load(path, ChallengeUse)
    except OSError as error:
        raise UserError(f"{path}: cannot note the use of the challenge: {error.strerror or error}") from None
    return use


def moment(text: str, where: str) -> datetime.datetime:
    """A time with its zone; UserError that names `where`."""
    try:
        # Python 3.10 does not read the Z of UTC
        time = datetime.datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise UserError(f"{where}: expected a time such as 2026-01-02T03:04:05+00:00, found {text[:60]!r}")
    return time


def _text(time: datetime.datetime) -> str:
    return time.astimezone(datetime.timezone.utc).isoformat(timespec="seconds")
