"""Have a run made with a seed that nobody could know before, and handed in before a deadline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from llmperf import json_option, print_json, printable, read_case, run_folders
from llmperf.errors import UserError
from llmperf.types import Finding, Result
from llmperf.validation import Validator

from llmperf_verify import challenges
from llmperf_verify.challenges import challenge_check, moment
from llmperf_verify.documents import RESULT
from llmperf_verify.verification import LevelCheck

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
"""Seconds of the units of durations."""
LONGEST = 366 * 86400
"""Seconds of the longest duration."""
EXAMPLES = """\b
Examples:
  llmperf challenge issue --within 2h --case default -o challenges   a file to keep and to send
  llmperf run default --challenge challenge-1a2b3c4d.json            the submitter's run
  llmperf challenge check submission.zip --issued challenges
  llmperf validate submission.zip --challenges challenges --spot 3   whether step 1 was trained, too
"""


class Duration(click.types.StringParamType):
    """A time such as `90m`, `2h` or `7d`, in seconds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The seconds; click's error for another text, and beyond a year."""
        if isinstance(value, (int, float)):
            return float(value)
        text = str(value).strip()
        number, unit = text[:-1], text[-1:]
        if not (number.isdecimal() and unit in UNITS and 0 < int(number) * UNITS[unit] <= LONGEST):
            self.fail(f"expected a time of at most 366 days such as 90m, 2h or 7d; found {value!r}.", param, ctx)
        return float(int(number) * UNITS[unit])


@click.group("challenge", epilog=EXAMPLES)
def command() -> None:
    """Have a run made with a seed that nobody could know before, and handed in before a deadline.

    The seed determines initial weights and data, so that nothing of the run can be computed before the challenge is
    issued. A challenge is a file: keep it, and send a copy to the submitter.
    """


@command.command("issue")
@click.option("--within", "seconds", metavar="TIME", type=Duration(), required=True,
              help="From now to the deadline, such as 90m, 2h or 7d.")  # fmt: skip
@click.option("--case", metavar="CASE",
              help="The case that has to be run, without a change to its contract; any by default.")  # fmt: skip
@click.option("-o", "--out", "output", metavar="FILE.json|DIR", type=click.Path(path_type=Path),
              help="The file to write, or its folder; the working directory by default.")  # fmt: skip
@json_option
def issue(seconds: float, case: str | None, output: Path | None, as_json: bool) -> None:
    """Write a challenge: a random nonce of 256 bits and a deadline."""
    if case is not None:
        read_case(case)
    path = challenges.issue(seconds, case, output)
    if as_json:
        print_json({"challenge": str(path)})
        return
    click.echo(f"{path}: keep it, and send a copy to the submitter: llmperf run --challenge {path.name}")


@command.command("check")
@click.argument("result", type=click.Path(path_type=Path), shell_complete=run_folders)
@click.option("--issued", metavar="FILE|DIR", type=click.Path(path_type=Path), required=True,
              help="The challenge, or your folder of challenges.")  # fmt: skip
@click.option("--received", metavar="TIME",
              help="When it was handed in, such as 2026-01-02T03:04:05+00:00; now by default.")  # fmt: skip
@json_option
@click.pass_context
def check(ctx: click.Context, result: Path, issued: Path, received: str | None, as_json: bool) -> None:
    """Check whether RESULT, a run folder, a result.json, an archive or a folder of these, answers a challenge of yours.

    The rules of llmperf validate are applied first. The first result that answers a challenge without an error is noted
    in a file beside the challenge. Exits with 1 if a result does not answer one.
    """
    time = None if received is None else moment(received, "--received")
    checks: list[tuple[Path, LevelCheck]] = []
    errors: list[UserError] = []

    def further(of: Result, file: Path, archive: Path | None, findings: Sequence[Finding]) -> Sequence[Finding]:
        if file.name != RESULT:
            errors.append(UserError(f"{file}: expected {RESULT} in its run folder, found a result of another name"))
            return ()
        folder = file.parent
        try:
            outcome = challenge_check(folder, of, issued, time, findings=findings)
        except UserError as error:
            errors.append(error)
        else:
            checks.append((folder if archive is None else archive / folder.name, outcome))
        return ()

    unreadable = []
    for file in Validator(further=further).validated(result):
        if errors:
            raise errors[0]
        if file.kind in ("result", "archive", None):
            unreadable += [f"{file.path}: {found.message}" for found in file.findings if found.severity == "error"]
    if not checks:
        reason = f": {unreadable[0]}" if unreadable else ""
        raise UserError(f"{result}: expected a run with its {RESULT}, found none that can be read{reason}")
    if as_json:
        print_json([{"run": str(shown), "outcome": one.outcome, "message": one.message} for shown, one in checks])
    for shown, outcome in () if as_json else checks:
        line = f"{printable(str(shown), ' ')}: {outcome.outcome}: {printable(outcome.message, ' ')}"
        click.echo(click.style(line, fg="green" if outcome.outcome == "passed" else "red"))
    ctx.exit(0 if all(outcome.outcome == "passed" for _, outcome in checks) else 1)
