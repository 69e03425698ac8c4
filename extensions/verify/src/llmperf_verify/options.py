"""The options of `llmperf validate` for the levels of verification, and `--challenge` of `llmperf run`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from llmperf.errors import UserError
from llmperf.reporting import word
from llmperf.types import CalledRun, CalledValidate, CommandOptions, FileFindings, Finding, Result

SIGNATURES = (".sig", ".witness.sig")
"""Endings of the names of signatures after those of the signed files."""
DEFAULT = "default"
EXAMPLES = """\
  llmperf validate submission.zip --signers allowed_signers --record
  llmperf validate submission.zip --spot 3     compute losses of step 1 and compare
  llmperf validate submission.zip --rerun 5    train the first steps here and compare
"""


class RerunSteps(click.IntRange):
    """A number of steps; `default`, which nobody has to write, goes beyond the warm-up of each result."""

    def __init__(self) -> None:
        super().__init__(min=2)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number or `default`; click's error for another text, such as a path that follows the option."""
        if value == DEFAULT:
            return value
        if not str(value).lstrip("-").isdecimal():
            self.fail(
                f"expected a number of steps, found {value!r}; without a number, paths come before it.", param, ctx
            )
        return super().convert(value, param, ctx)


def run_options() -> CommandOptions:
    """`--challenge`."""
    option = click.Option(["--challenge"], metavar="FILE", type=click.Path(path_type=Path),
                          help="Take the seed from a challenge that a validator has issued.")  # fmt: skip
    return CommandOptions(options=[option], begin=begin_run)


def begin_run(called: CalledRun) -> None:
    """Take the seed of a challenge; UserError if that is of another case, or the seed is set too."""
    path: Path | None = called.values["challenge"]
    if path is None:
        return
    if called.values["repeat"] > 1:
        raise click.UsageError("--challenge is for one run: not with --repeat, --matrix or --scale.")
    from llmperf_verify.challenges import read_challenge

    challenge, choice = read_challenge(path), called.choice
    if challenge.case is not None and challenge.case != choice.case:
        raise UserError(f"--challenge {path}: expected case {challenge.case!r}, found {choice.case!r}")
    for setting in choice.settings:
        if setting == "contract.seed":
            raise UserError(f"--set {setting}: the challenge determines the seed; leave one of both out")
        if challenge.case is not None and setting.startswith("contract."):
            raise UserError(f"--set {setting}: the challenge is for case {challenge.case!r} as it is")
    called.challenged(challenge.nonce)


def validate_options() -> CommandOptions:
    """The checks beyond the rules."""
    file, text = click.Path(path_type=Path), click.STRING
    options = [
        click.Option(["--spot"], metavar="K", type=click.IntRange(min=1),
                     help="Compute the losses of K sequences of step 1 from the plan alone, and compare."),
        click.Option(["--spot-seed"], metavar="SEED", type=click.IntRange(min=0),
                     help="Draw the sequences of an earlier spot check."),
        click.Option(["--challenges"], metavar="FILE|DIR", type=file,
                     help="Require the answer to a challenge that you issued."),
        click.Option(["--rerun"], metavar="[N]", type=RerunSteps(), is_flag=False, flag_value=DEFAULT,
                     help="Train the first N steps of each result here, without N its warm-up and five measured steps;"
                          " compare losses, gradient norms and, on the same device model, speed, memory, energy and"
                          " measured peak."),
        click.Option(["--framework"], metavar="F", type=text,
                     help="Framework of --rerun; the result's own by default, or another that can."),
        click.Option(["--signers"], metavar="FILE", type=file,
                     help="Require a signature by a key of this file of allowed signers."),
        click.Option(["--witnesses"], metavar="FILE", type=file,
                     help="Require a signature of a trusted runner, by a key of this file."),
        click.Option(["--sigstore"], metavar="SUBJECT,ISSUER",
                     help="Require a sigstore bundle by this identity."),
        click.Option(["--sigstore-witness"], metavar="SUBJECT,ISSUER",
                     help="Require a sigstore bundle of a trusted runner with this identity."),
        click.Option(["--record"], is_flag=True,
                     help="Write what was verified to verification.json, beside each result or archive."),
    ]  # fmt: skip
    names = [str(option.name) for option in options]
    return CommandOptions(
        options=options,
        begin=lambda called: begin_validate(called, {name: called.values[name] for name in names}),
        examples=EXAMPLES,
    )


def begin_validate(called: CalledValidate, values: dict[str, Any]) -> None:
    """Add the checks that the options ask for; UserError or UsageError for values that do not fit."""
    if all(value in (None, False) for value in values.values()):
        called.check_results(unasked)
        return
    from llmperf_verify.levels import LevelChecks
    from llmperf_verify.rules.levels import verified_note
    from llmperf_verify.sigstore_bundles import identity
    from llmperf_verify.ssh_signatures import check_allowed_signers

    if values["spot_seed"] is not None and values["spot"] is None:
        raise click.UsageError("--spot-seed belongs to --spot.")
    if values["framework"] is not None and values["rerun"] is None:
        raise click.UsageError("--framework belongs to --rerun.")
    for name in ("signers", "witnesses"):
        if values[name] is not None:
            check_allowed_signers(values[name], f"--{name}")
    if (issued := values["challenges"]) is not None and not issued.exists():
        raise UserError(f"--challenges: expected the folder of your challenges, found no {issued}")
    kept = values.pop("record")
    for name in ("sigstore", "sigstore_witness"):
        if values[name] is not None:
            values[name] = identity(values[name], f"--{name.replace('_', '-')}")
    levels = LevelChecks(**values, kept=kept, say=lambda line: click.echo(line, err=True))
    called.check_results(lambda result, path, archive, findings: verified_note(path))
    called.check_results(levels)

    def record(files: Sequence[FileFindings]) -> None:
        for path in levels.record(files):
            line = f"{path}: what was verified; sign it: llmperf sign {path} --key KEY"
            click.echo(word(line, called.values["language"]), err=True)

    if kept:
        called.at_end(record)


def unasked(result: Result, path: Path, archive: Path | None, findings: Sequence[Finding]) -> Iterator[Finding]:
    """The findings of a result without any option: of a verification and of signatures beside it or its archive."""
    if (path.parent / "verification.json").is_file():
        from llmperf_verify.rules.levels import verified_note

        yield from verified_note(path)
    files = [path] if archive is None else [path, archive]
    if any(file.with_name(file.name + ending).is_file() for file in files for ending in SIGNATURES):
        from llmperf_verify.levels import LevelChecks

        yield from LevelChecks()(result, path, archive, findings)
