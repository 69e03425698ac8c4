"""Find the settings with which a case runs fastest, by short measured runs."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click
from llmperf import headings_option, json_option, print_json, print_table, printable, write_bytes
from llmperf.errors import UserError

from llmperf_sweep.tune.candidates import Search, literal
from llmperf_sweep.tune.search import Outcome, Tuner, Wishes, reasons, working_in
from llmperf_sweep.tune.trials import Trial

FILE = "overlay.toml"


def changes(outcome: Outcome, trial: Trial) -> dict[str, str]:
    """The settings in which a trial differs from the case."""
    return {path: value for path, value in trial.values.items() if outcome.default[path] != value}


def write_overlay(outcome: Outcome, folder: Path) -> Path | None:
    """Write the overlay of the best trial; None unless whole runs confirm it, or with several objectives."""
    path = folder / FILE
    path.unlink(missing_ok=True)
    if len(outcome.objectives) > 1 or not outcome.best or not changes(outcome, outcome.best[0]):
        return None
    if outcome.confirmation is not None and outcome.confirmation.ratio <= 1:
        return None
    best, objective, spec = outcome.best[0], outcome.objectives[0], outcome.plan["spec"]
    date = datetime.now(timezone.utc).date().isoformat()
    complete = sum(trial.state == "complete" for trial in outcome.trials)
    evidence = [
        f"Found by llmperf tune on {date}: {len(outcome.trials)} trials ({complete} complete) of {outcome.space.size}"
        f" combinations; folder {folder}.",
        f"Best trial {best.folder}: {_figure(best.figures.get(objective.name))} {objective.title}.",
    ]
    default = next((trial for trial in outcome.trials if dict(trial.values) == dict(outcome.default)), None)
    if default is not None:
        figure = _figure(default.figures.get(objective.name))
        evidence.append(f"The case as it is, in a run of the same length: {figure}.")
    when = {
        "case": spec["case"],
        "model": spec["contract"]["model"],
        "device": outcome.plan["probe"]["devices"][0]["model"],
        "framework": spec["tuning"]["framework"],
        "ranks": spec["tuning"]["nodes"] * spec["tuning"]["devices"],
    }
    lines = [f"# {printable(line, ' ')}" for line in (*evidence, confirmed_text(outcome))]
    lines += ["", "[when]", *(f"{name} = {json.dumps(value)}" for name, value in when.items())]
    tables: dict[str, list[str]] = {}
    for setting, value in changes(outcome, best).items():
        table, _, name = setting.partition(".")
        tables.setdefault(table, []).append(f"{name} = {literal(value)}")
    for table, entries in sorted(tables.items()):
        lines += ["", f"[{table}]", *entries]
    write_bytes(path, "\n".join([*lines, ""]).encode())
    return path


def confirmed_text(outcome: Outcome) -> str:
    """Text on the whole runs that confirm the winner."""
    confirmation = outcome.confirmation
    if confirmation is None:
        return "Not confirmed by whole runs."
    pairs = ", ".join(
        f"{best:,.1f} / {default:,.1f}" for best, default in zip(confirmation.best, confirmation.default, strict=True)
    )
    verdict = "" if confirmation.certain else "; the difference may be noise"
    if confirmation.ratio <= 1:
        verdict = f"{verdict}; no overlay: the short trials promised more than whole runs keep"
    return f"Whole runs in pairs, best / case: {pairs} token/p/s; median ratio {confirmation.ratio:.3f}{verdict}."


def _figure(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"


EXAMPLES = """\b
Examples:
  llmperf tune default                                        micro batch, sharding, checkpointing, compile, ...
  llmperf tune default --search micro_batch=1,2 --search sharding_stage=0,1,2
  llmperf tune default --trials 12 --objective memory --objective throughput
  llmperf tune default --resume                               go on after an interruption
  llmperf run default --overlay tune/default/overlay.toml     use what was found
"""
OBJECTIVES = ("throughput", "energy", "memory")


@click.command("tune", epilog=EXAMPLES)
@click.argument("case", default="default")
@click.option("--search", "searches", metavar="PATH=A,B,...", multiple=True,
              help="Values of one setting; may be repeated. Without it: settings that often matter.")  # fmt: skip
@click.option("--trials", metavar="N", type=click.IntRange(1, 10_000), default=20, show_default=True,
              help="Measured runs at most.")  # fmt: skip
@click.option("--steps", metavar="N", type=click.IntRange(2, 100_000), default=12, show_default=True,
              help="Steps of a trial, with --warmup-steps.")  # fmt: skip
@click.option("--warmup-steps", metavar="N", type=click.IntRange(0, 100_000), default=3, show_default=True,
              help="First steps of a trial, which are not measured.")  # fmt: skip
@click.option("--objective", "objectives", type=click.Choice(OBJECTIVES), multiple=True, default=("throughput",),
              show_default=True, help="What to optimise; several give a Pareto front.")  # fmt: skip
@click.option("--confirm", metavar="N", type=click.IntRange(0, 100), default=2, show_default=True,
              help="Pairs of whole runs of the best and of the case as it is.")  # fmt: skip
@click.option("--vendor", metavar="V", help="Whose devices; the best here by default.")
@click.option("--framework", metavar="F", help="The case's own by default.")
@click.option("--devices", metavar="N", type=click.IntRange(min=1), help="Ranks on this node.")
@click.option("--set", "settings", metavar="PATH=VALUE", multiple=True, help="Fix one setting; may be repeated.")
@click.option("--launcher", metavar="L", help="What brings the ranks to the nodes.")
@click.option("--hosts", metavar="A,B", help="Nodes for the launcher.")
@click.option("--python", metavar="PATH", help="Python of the ranks.")
@click.option(
    "--seed", metavar="N", type=click.IntRange(min=0), default=0, help="Of what is tried with several objectives."
)
@click.option("-o", "--out", metavar="DIR", type=click.Path(path_type=Path, file_okay=False),
              help="Folder of the search; tune/CASE by default.")  # fmt: skip
@click.option("--resume", is_flag=True, help="Continue the search in that folder.")
@headings_option
@json_option
@click.pass_context
def command(ctx: click.Context, /, case: str, out: Path | None, resume: bool, as_json: bool, **options: Any) -> None:
    """Search the settings with which CASE trains fastest, and write them as an overlay with the evidence.

    Combinations are planned first: those that cannot run are never started. Trials are short runs; the contract of the
    case stays as it is. The first trial is the case itself. Ctrl-C keeps what was measured; --resume continues.

    Exits with 1 if no trial was complete, 2 for bad input, 130 if interrupted.
    """
    from llmperf_sweep.tune.space import parsed

    space = parsed(options["searches"])
    searched = {each.path for each in space.dimensions}
    for text in options["settings"]:
        path = text.partition("=")[0].strip()
        if path in searched or f"tuning.{path}" in searched:
            raise UserError(f"--set {path}: the setting is searched; expected it either in --search or in --set")
    named = ("launcher", "hosts", "python")
    words = [word for name in named if options[name] is not None for word in (f"--{name}", options[name])]
    search = Search(
        case=case,
        options=tuple(words),
        **{name: options[name] for name in ("vendor", "framework", "devices", "settings")},
    )
    wishes = Wishes(
        objectives=tuple(dict.fromkeys(options["objectives"])),
        **{name: options[name] for name in ("trials", "steps", "warmup_steps", "confirm", "seed")},
    )
    if wishes.warmup_steps >= wishes.steps:
        raise UserError(f"--warmup-steps: expected less than --steps {wishes.steps}, found {wishes.warmup_steps}")
    folder = out or Path("tune") / Path(case).stem
    with working_in(folder, search, space, wishes, resume) as keep_options:
        tuner = Tuner(search, space, wishes, folder, _say)
        keep_options()
        left_out = len(tuner.candidates) - len(tuner.usable)
        _say(f"{len(tuner.usable)} of them can run, {left_out} are refused; up to {wishes.trials} trials in {folder}")
        try:
            tuner.run(lambda number, trial, best: _show(number, trial, best, tuner.default))
            tuner.confirm()
        except KeyboardInterrupt:
            _say(f"interrupted; continue with --resume: {folder}")
            raise
        outcome = tuner.outcome()
        overlay = write_overlay(outcome, folder)
    if as_json:
        print_json(_document(outcome, folder, overlay))
    else:
        _report(outcome, overlay)
    ctx.exit(0 if outcome.best else 1)


def _say(line: str) -> None:
    click.echo(printable(line, " "), err=True)


def _show(number: int, trial: Trial, best: bool, default: Any) -> None:
    rate = trial.figures.get("throughput")
    figure = f"{rate:,.1f} token/p/s" if rate is not None else ""
    if trial.state != "complete":
        figure = trial.reason
    mark = " (best so far)" if best and number > 1 else " (the case as it is)" if trial.values == default else ""
    _say(f"trial {number}: {_values(trial)}: {figure}{mark}")


def _values(trial: Trial) -> str:
    return " ".join(f"{path.rpartition('.')[2]}={value}" for path, value in trial.values.items())


def _report(outcome: Outcome, overlay: Path | None) -> None:
    names = [each.path for each in outcome.space.dimensions]
    first = outcome.objectives[0]
    complete = [trial for trial in outcome.trials if trial.state == "complete"]
    ranked = sorted(complete, key=lambda trial: trial.figures[first.name] or 0.0, reverse=first.highest)
    rows = [
        (*(trial.values[name] for name in names),
         *(_number(trial.figures.get(each.name)) for each in outcome.objectives),
         "best" if trial in outcome.best else "", trial.folder or "")
        for trial in ranked[:10]
    ]  # fmt: skip
    print_table(
        (*(name.rpartition(".")[2] for name in names), *(each.title for each in outcome.objectives), "", "run"), rows
    )
    for count, reason in reasons(outcome.candidates)[:5]:
        click.echo(f"refused: {count} combinations, such as: {printable(reason, ' ')}")
    if outcome.cannot_win:
        click.echo(f"not measured, since the estimate leaves them no chance: {len(outcome.cannot_win)} combinations")
    for trial in outcome.trials:
        if trial.state == "failed":
            click.echo(f"failed: {_values(trial)}: {printable(trial.reason, ' ')}")
    if not outcome.best:
        click.echo("no trial was complete")
    elif len(outcome.objectives) == 1:
        changed = changes(outcome, outcome.best[0])
        if not changed:
            click.echo("the case as it is was the best")
            return
        click.echo("best: " + " ".join(f"--set {path}={value}" for path, value in changed.items()))
        click.echo(confirmed_text(outcome))
    if overlay is not None:
        click.echo(f"written: {overlay}; use it with --overlay {overlay}")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f}" if abs(value) < 1e6 else f"{value:.4g}"


def _document(outcome: Outcome, folder: Path, overlay: Path | None) -> dict[str, Any]:
    confirmation = outcome.confirmation
    return {
        "folder": str(folder),
        "objectives": [each.name for each in outcome.objectives],
        "space": {each.path: each.values for each in outcome.space.dimensions},
        "combinations": len(outcome.candidates),
        "refused": sum(bool(each.refusals) for each in outcome.candidates),
        "cannot_win": len(outcome.cannot_win),
        "default": outcome.default,
        "trials": outcome.trials,
        "best": outcome.best,
        "confirmation": confirmation
        and {"best": confirmation.best, "default": confirmation.default, "ratio": confirmation.ratio,
             "certain": confirmation.certain, "folders": confirmation.folders},
        "overlay": None if overlay is None else str(overlay),
    }  # fmt: skip
