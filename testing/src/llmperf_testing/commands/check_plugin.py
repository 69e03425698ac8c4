"""Check that an installed plugin keeps its contract."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import click
from llmperf import json_option, print_json
from llmperf.plugins.discovery import Found

from llmperf_testing.check import Outcome

EXAMPLES = """\b
Examples:
  llmperf check-plugin cpu
  llmperf check-plugin zero --fast
  llmperf check-plugin nvidia --json
  llmperf check-plugin my_loop --seed 271828
  llmperf check-plugin my_loop --case my_moe.toml --reference pytorch
"""
COLOURS = {"passed": "green", "failed": "red", "skipped": "yellow"}


def _installed(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from llmperf.plugins.discovery import discover

    return sorted({one.name for one in discover() if one.name.startswith(incomplete)})


@click.command("check-plugin", epilog=EXAMPLES)
@click.argument("name", shell_complete=_installed)
@click.option("--fast", is_flag=True, help="Leave out the checks that train.")
@click.option("--vendor", metavar="V", help="Whose devices a framework is tried on; the best here by default.")
@click.option("--set", "settings", metavar="PATH=VALUE", multiple=True, help="What the case needs with a framework.")
@click.option("--case", metavar="CASE", help="Case that a framework trains; a drawn Llama if not given.")
@click.option("--reference", metavar="F", help="Framework whose losses the checked framework's must equal.")
@click.option("--seed", type=click.IntRange(1), metavar="N", help="Seed of the case that a framework trains.")
@json_option
@click.pass_context
def command(ctx: click.Context, /, name: str, fast: bool, as_json: bool, **options: Any) -> None:
    """Check that the installed plugin NAME keeps its contract; needs no pytest and no tests of the plugin's.

    Exits with 0 if every check passed or was skipped, 1 if one failed, 2 if there is no such plugin or an option is
    invalid.
    """
    from llmperf_testing.running import checks_of, outcomes, subject_of

    named = _named(name)
    if any(options.values()) and not any(one.role == "framework" for one in named):
        given = "--vendor, --set, --case, --reference and --seed"
        raise click.UsageError(f"{given} are for frameworks; {name} is a {named[0].role}")
    made: list[Outcome] = []
    tried_on = used_seed = None
    for found in named:
        count = sum(not (fast and one.slow) for one in checks_of(found.role))
        label = f"{found.role} {name}"
        with (
            subject_of(found.role, name, **options) as subject,
            click.progressbar(outcomes(subject, fast=fast), length=count, label=label, file=sys.stderr) as bar,
        ):
            made += bar
            tried_on, used_seed = subject.tried_on or tried_on, subject.seed or used_seed
    if as_json:
        print_json({"plugin": name, "vendor": tried_on, "seed": used_seed, "checks": made, **_counts(made)})
    else:
        if tried_on is not None:
            click.echo(f"framework {name} on devices of vendor {tried_on}, seed {used_seed}")
        _print(made)
    if any(one.state == "failed" for one in made):
        ctx.exit(1)


def _named(name: str) -> list[Found]:
    """Every installed plugin of that name, one a role; UserError with the nearest name if there is none."""
    from llmperf.errors import unknown
    from llmperf.plugins.discovery import discover, find
    from llmperf.plugins.own_packages import published

    installed = discover()
    roles = list(dict.fromkeys(one.role for one in installed if one.name == name))
    roles += [role for role, shipped in published() if shipped == name and role not in roles]  # type: ignore[misc]
    if not roles:
        raise unknown("check-plugin", "plugin", name, {one.name for one in installed})
    return [find(role, name, installed) for role in roles]


def _counts(made: list[Outcome]) -> dict[str, int]:
    counted = Counter(one.state for one in made)
    return {state: counted[state] for state in ("passed", "failed", "skipped")}


def _print(made: list[Outcome]) -> None:
    width = max(len(one.check) for one in made)
    above = ""
    for one in made:
        state = click.style(f"{one.state:7}", fg=COLOURS[one.state])
        message = "as above" if one.message and one.message == above else one.message
        above = one.message or above
        click.echo(f"{one.check:{width}}  {state}  {message}".rstrip())
        if one.state == "failed":
            click.echo(f"{'':{width}}           {one.meaning}")
    click.echo(", ".join(f"{count} {state}" for state, count in _counts(made).items()))
