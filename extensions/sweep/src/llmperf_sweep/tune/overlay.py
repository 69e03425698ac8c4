"""The winner as an overlay file, with the evidence for it."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

from llmperf import printable, write_bytes

from llmperf_sweep.tune.candidates import literal
from llmperf_sweep.tune.search import Outcome
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
