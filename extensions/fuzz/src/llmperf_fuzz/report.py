"""The report of a case that differs, which an issue can quote: what to type, and the figures side by side."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import llmperf
from llmperf.launching import package_versions, python_module
from llmperf_inspect import model_text

from llmperf_fuzz.cases import NAME, DrawnCase, options_of
from llmperf_fuzz.search import Found
from llmperf_fuzz.trials import Outcome, Trained, compared


def write_report(folder: Path, found: Found, case: DrawnCase, command: str) -> dict[str, Any]:
    """Write the model and the report into a new folder, after running both commands as a user would."""
    folder.mkdir(parents=True)
    model_file = folder / f"{NAME}.toml"
    model_file.write_text(model_text(case.model))
    commands, shown, again = [options_of(one, str(model_file)) for one in case[1:]], found.outcome, False
    try:
        layout, alone = (ran([*words, "--out", str(folder / "runs")], folder / "runs.log") for words in commands)
        outcome = compared(layout, alone, case.layout.contract.precision)
        again = found.outcome.like(outcome)
        shown = outcome if again else shown
    except KeyboardInterrupt:
        command += " (interrupted)"
    packages = {"python", "llmperf"}
    for name in {one.tuning.framework for one in case[1:]}:
        (entry,) = entry_points(group="llmperf.framework.v1", name=name)
        packages |= {*entry.load().llmperf_facts().packages}
    document = {
        "summary": shown.summary, "precision": case.layout.contract.precision, "case": found.case,
        "first_step": shown.step, "departures": found.departures,
        "commands": [shlex.join(["llmperf", *words]) for words in reversed(commands)], "reproduced_by_commands": again,
        "found_by": command, "cases_tried": found.tried, "smallest": found.smallest, "one_rank": shown.alone,
        "layout": shown.layout, "packages": package_versions(tuple(packages)), "folder": str(folder),
    }  # fmt: skip
    (folder / "finding.json").write_bytes(llmperf.encode_pretty(document))
    (folder / "report.md").write_text(markdown(document, shown, model_file.read_text()))
    return document


def ran(words: Sequence[str], log: Path) -> Trained:
    """The figures of a run in a process of its own."""
    with log.open("ab") as errors:
        command = [*python_module("llmperf"), *words, "--json"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
    try:
        result: Mapping[str, Any] = json.loads(done.stdout)["result"]
    except (ValueError, KeyError, TypeError):
        return Trained(error=f"exit code {done.returncode}: no result; see {log.name}")
    failure, points = result["failure"], result["loss_curve"]
    if failure is not None and not points:
        kind = (failure.get("exception") or result["status"]).rpartition(".")[2]
        return Trained(error=f"{kind}: {' '.join((failure.get('message') or '').split())}")
    losses = tuple(point["loss"] if point["nonfinite"] is None else float(point["nonfinite"]) for point in points)
    return Trained(losses=losses, norms=tuple(point["grad_norm"] for point in points))


def markdown(document: Mapping[str, Any], outcome: Outcome, model: str) -> str:
    """The report of a finding."""
    alone, layout = outcome.alone, outcome.layout
    figures = ["```", alone.error or layout.error, "```"]
    if outcome.step is not None:
        names = "Step", "Loss on one rank", "Loss in the layout", "Norm on one rank", "Norm in the layout"
        figures = [f"| {' | '.join(names)} |", "|" + "---:|" * len(names)]
        for step, row in enumerate(zip(alone.losses, layout.losses, alone.norms, layout.norms, strict=False), 1):
            mark = " (first that differs)" if step == outcome.step else ""
            figures.append(f"| {step}{mark} | {' | '.join('' if one is None else f'{one:.9g}' for one in row)} |")
    departures = [f"- `{path} = {json.dumps(value)}`" for path, value in document["departures"].items()]
    measured = "The figures are those of these commands."
    if not document["reproduced_by_commands"]:
        measured = (
            "**These commands have not shown it**: the figures are from ranks that were forked after all imports."
        )
    about = f"The same weights, tokens and optimiser in {document['precision']}, in a layout of several ranks"
    smallest = (
        "The smallest case found" if document["smallest"] else "The case, which was not made as small as possible,"
    )
    versions = ", ".join(f"{name} {version}" for name, version in sorted(document["packages"].items()))
    return "\n".join([
        *(f"# {document['summary']}", "", f"{about} and on one:", "", "```", *document["commands"], "```", ""),
        *(measured, "", *figures, "", f"{smallest} departs from the simplest one in:", ""),
        *(departures or ["- nothing but the number of ranks"]), "", f"Versions: {versions}.", "",
        *(f"Found by `{document['found_by']}`, case {document['case']}.", "", f"`{NAME}.toml`:", ""),
        *("```toml", model.rstrip(), "```", ""),
    ])  # fmt: skip
