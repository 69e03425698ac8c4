"""The options of `llmperf validate` for checks beyond the rules: the levels of verification of docs/trust.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from llmperf.cli.completed_values import plugin_names
from llmperf.cli.options import Text

if TYPE_CHECKING:
    from llmperf.verifying.levels import LevelChecks

F = TypeVar("F", bound=Callable[..., Any])

OPTIONS: Sequence[Callable[[Any], Any]] = (
    click.option("--spot", metavar="K", type=click.IntRange(min=1),
                 help="Compute the losses of K sequences of step 1 from the plan alone, and compare."),
    click.option("--spot-seed", metavar="SEED", type=click.IntRange(min=0),
                 help="Draw the sequences of an earlier spot check."),
    click.option("--challenges", metavar="FILE|DIR", type=click.Path(path_type=Path),
                 help="Require the answer to a challenge that you issued."),
    click.option("--rerun", metavar="N", type=click.IntRange(min=2),
                 help="Train the first N steps of each result here; compare losses, gradient norms and, on the"
                      " same device model, speed, memory, energy and measured peak."),
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


def level_checks(values: dict[str, Any]) -> LevelChecks:
    """The checks that these values of the options ask for; UserError or UsageError for values that do not fit."""
    from llmperf.errors import UserError
    from llmperf.files.signatures import check_allowed_signers
    from llmperf.files.sigstore_bundles import identity
    from llmperf.verifying.levels import LevelChecks, Wanted

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
        text = values[name]
        values[name] = None if text is None else identity(text, f"--{name.replace('_', '-')}")
    return LevelChecks(Wanted(**values), kept=kept, say=lambda line: click.echo(line, err=True))
