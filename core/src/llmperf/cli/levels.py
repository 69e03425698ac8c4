"""The options of `llmperf validate` for checks beyond the rules: the levels of verification of docs/trust.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from llmperf.cli.completion import plugin_names
from llmperf.cli.options import Text

if TYPE_CHECKING:
    from llmperf.types import Finding, Result
    from llmperf.verifying.levels import LevelChecks

SIGNATURES = (".sig", ".witness.sig")
"""Endings of the names of signatures after those of the signed files."""
F = TypeVar("F", bound=Callable[..., Any])

DEFAULT = "default"


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


OPTIONS: Sequence[Callable[[Any], Any]] = (
    click.option("--spot", metavar="K", type=click.IntRange(min=1),
                 help="Compute the losses of K sequences of step 1 from the plan alone, and compare."),
    click.option("--spot-seed", metavar="SEED", type=click.IntRange(min=0),
                 help="Draw the sequences of an earlier spot check."),
    click.option("--challenges", metavar="FILE|DIR", type=click.Path(path_type=Path),
                 help="Require the answer to a challenge that you issued."),
    click.option("--rerun", metavar="[N]", type=RerunSteps(), is_flag=False, flag_value=DEFAULT,
                 help="Train the first N steps of each result here, without N its warm-up and five measured steps;"
                      " compare losses, gradient norms and, on the same device model, speed, memory, energy and"
                      " measured peak."),
    click.option("--framework", metavar="F", type=Text(), shell_complete=plugin_names,
                 help="Framework of --rerun; the result's own by default, or another that can."),
    click.option("--signers", metavar="FILE", type=click.Path(path_type=Path),
                 help="Require a signature by a key of this file of allowed signers."),
    click.option("--witnesses", metavar="FILE", type=click.Path(path_type=Path),
                 help="Require a signature of a trusted runner, by a key of this file."),
    click.option("--sigstore", metavar="SUBJECT,ISSUER",
                 help="Require a sigstore bundle by this identity."),
    click.option("--sigstore-witness", metavar="SUBJECT,ISSUER",
                 help="Require a sigstore bundle of a trusted runner with this identity."),
    click.option("--record", is_flag=True,
                 help="Write what was verified to verification.json, beside each result or archive."),
)  # fmt: skip


def level_options(command: F) -> F:
    """Add the options to a command, which gets their values by name."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def signature_checks(
    result: Result, path: Path, archive: Path | None, findings: Sequence[Finding]
) -> Iterable[Finding]:
    """The findings of a result without any option: of signatures beside it or its archive."""
    files = [path] if archive is None else [path, archive]
    if not any(file.with_name(file.name + ending).is_file() for file in files for ending in SIGNATURES):
        return ()
    from llmperf.verifying.levels import LevelChecks

    return LevelChecks()(result, path, archive, findings)


def level_checks(values: dict[str, Any]) -> LevelChecks | None:
    """The checks that these values of the options ask for; UserError or UsageError for values that do not fit."""
    if all(value in (None, False) for value in values.values()):
        return None
    from llmperf.verifying.levels import LevelChecks, Wanted

    if values["spot_seed"] is not None and values["spot"] is None:
        raise click.UsageError("--spot-seed belongs to --spot.")
    if values["framework"] is not None and values["rerun"] is None:
        raise click.UsageError("--framework belongs to --rerun.")
    for name in ("signers", "witnesses"):
        if values[name] is not None:
            from llmperf.files.signatures import check_allowed_signers

            check_allowed_signers(values[name], f"--{name}")
    if (issued := values["challenges"]) is not None and not issued.exists():
        from llmperf.errors import UserError

        raise UserError(f"--challenges: expected the folder of your challenges, found no {issued}")
    kept = values.pop("record")
    for name in ("sigstore", "sigstore_witness"):
        if values[name] is not None:
            from llmperf.files.sigstore_bundles import identity

            values[name] = identity(values[name], f"--{name.replace('_', '-')}")
    return LevelChecks(Wanted(**values), kept=kept, say=lambda line: click.echo(line, err=True))
