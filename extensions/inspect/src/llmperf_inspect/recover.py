"""Write the result of runs whose llmperf was killed before it could, from their plan and records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click
import llmperf
from llmperf.errors import LlmperfError, UserError
from llmperf.launching import Ending, held, left_of_run, read_ending, read_nodes
from llmperf.planning import open_launcher
from llmperf.types import NodeRequest, Plan, Result
from llmperf.validation import RunRecords, read_run

NOTE = "llmperf ended without a result; `llmperf recover` made this one from the records"


def recover(run: Path, say: Callable[[str], None] = lambda line: None) -> tuple[Result, bool]:
    """The result of a run folder, made from its plan and records if there is none, and whether it was made now.

    Records that are still on the nodes of the run are fetched first; `say` gets a line for each.
    """
    plan, path = llmperf.load_plan(run), run / "result.json"
    if plan.purpose != "run":
        raise UserError(f"{run}: expected a run, found a plan with purpose {plan.purpose!r}, which has no result")
    with held(run):
        folders: dict[int, str | None] = {}  # of the nodes whose records may not all be here
        if plan.launcher != "local" and plan.layout.nodes > 1:
            reached = read_nodes(run)
            folders = {node.node_rank: node.undelivered for node in reached if node.undelivered is not None}
            if not reached:  # the controller was killed
                folders = dict.fromkeys(range(plan.layout.nodes))
        if not folders and path.exists() and (run / "report.md").exists():
            return llmperf.load(path, Result), False
        if left_of_run(plan.run_id):
            raise UserError(f"{run}: expected a run that has ended, found processes of it on this machine")
        fetched = bool(folders) and _fetched(run, plan, tuple(folders), say)
        ending = read_ending(run)
        if ending is None:
            ending = ending_of(read_run(run))
        elif fetched:
            undelivered = [folder for folder in folders.values() if folder]
            notes = tuple(note for note in ending.notes if not any(folder in note for folder in undelivered))
            ending = replace(ending, notes=notes)
        elif folders and path.exists():
            return llmperf.load(path, Result), False
        return llmperf.concluded(run, plan, ending), True


def _fetched(run: Path, plan: Plan, nodes: tuple[int, ...], say: Callable[[str], None]) -> bool:
    """Have the launcher of a run bring the records of these nodes; returns whether it has."""
    hosts = tuple(plan.nodes[rank].host for rank in nodes)
    try:
        options = llmperf.user_config(Path.cwd()).tables.launchers.get(plan.launcher, {})
        launcher = open_launcher(plan.launcher, plan.vendor)
        try:
            offered = launcher.nodes(NodeRequest(nodes=len(nodes), devices=None, hosts=hosts, options=options))
            lines = launcher.remote(plan.interpreter).fetch(run, plan, dict(zip(nodes, offered, strict=False)))
        finally:
            launcher.close()
    except LlmperfError as error:
        say(f"records on {', '.join(hosts)} were not fetched: {error}")
        return False
    for line in lines:
        say(line)
    return True


def ending_of(records: RunRecords) -> Ending:
    """Ending of a run that only its ranks have recorded: `ended` if every rank had finished, otherwise `controller`."""
    plan, run = records.plan, records.run
    paths = [run / "plan.json", *(run / "records").iterdir()]
    at = llmperf.utc_time(max(path.stat().st_mtime for path in paths))  # of the last record, by the file system
    finished = {rank.rank for rank in records.ranks}
    if len(finished) == plan.layout.world_size:
        return Ending(cause="ended", at=at, notes=(NOTE,))
    steps = f"{records.steps.complete} of {plan.spec.contract.steps} steps are recorded"
    message = f"llmperf was killed, or this machine stopped, before the run ended; {steps}"
    if records.failures:
        first = min(records.failures, key=lambda failure: failure.at)
        message += f"; rank {first.rank} recorded {first.exception}: {first.message}"
    return Ending(cause="controller", message=message, at=at, notes=(NOTE,))


EXAMPLES = """\b
Examples:
  llmperf recover runs/ID
  llmperf recover runs/*
"""


@click.command("recover", epilog=EXAMPLES)
@llmperf.paths_argument("runs", "RUN...")
@llmperf.json_option
@click.pass_context
def command(ctx: click.Context, runs: tuple[Path, ...], as_json: bool) -> None:
    """Write the result of runs whose llmperf was killed before it could, from their plan and records.

    RUN is a run folder. The run is complete if every rank had written all of its records, and otherwise failed, with
    the step that it had reached. A folder that has a result is left as it is.

    Records that a run through a launcher has left on its nodes are fetched first, with the options of llmperf.toml.

    Exits with 0, 1 if a run is not complete or has an error finding, 2 if a run is going on or a folder is no run's.
    """
    from llmperf.reporting import card, result_sheet

    code, documents = 0, []
    for run in runs:
        result, made = recover(run, lambda line: click.echo(llmperf.printable(line, " "), err=True))
        wrong = any(finding.severity == "error" for finding in result.findings)
        code = max(code, int(wrong or result.status != "complete"))
        documents.append({"run": str(run), "status": result.status, "written": made, "failure": result.failure})
        if as_json:
            continue
        if made:
            click.echo(llmperf.painted_severities(card(result_sheet(result), "en", llmperf.painted)))
            click.echo(f"\nrun folder: {run}")
        else:
            click.echo(f"{run}: has its result already: {llmperf.painted(result.status)}")
    if as_json:
        llmperf.print_json(documents)
    ctx.exit(code)
