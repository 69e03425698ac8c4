"""The result of a run whose controller ended without writing one: killed, or by a power cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from llmperf.errors import LlmperfError, UserError
from llmperf.files import json_files
from llmperf.files.text import utc_time
from llmperf.measuring.processes import left_of_run
from llmperf.planning.launchers import installed_launcher, remote_nodes
from llmperf.planning.states import LOCAL
from llmperf.planning.user_config import user_config
from llmperf.plugins.loading import plugins_for
from llmperf.runfolder import filenames
from llmperf.runfolder.contents import RunRecords, read_run
from llmperf.runfolder.create import held, load_plan
from llmperf.runfolder.endings import Ending, read_ending, read_nodes
from llmperf.running.launched import keep_ending, save_result
from llmperf.running.measure import check
from llmperf.types.launching import NodeRequest
from llmperf.types.plan import Plan
from llmperf.types.result import Result
from llmperf.validation.run_folder import recorded_findings

NOTE = "llmperf ended without a result; `llmperf recover` made this one from the records"


def recover(run: Path, say: Callable[[str], None] = lambda line: None) -> tuple[Result, bool]:
    """The result of a run folder, made from its plan and records if there is none, and whether it was made now.

    Records that are still on the nodes of the run are fetched first; `say` gets a line for each.
    """
    plan, path = load_plan(run), run / filenames.RESULT
    if plan.purpose != "run":
        raise UserError(f"{run}: expected a run, found a plan with purpose {plan.purpose!r}, which has no result")
    with held(run):
        folders: dict[int, str | None] = {}  # of the nodes whose records may not all be here
        if plan.launcher != LOCAL and plan.layout.nodes > 1:
            reached = read_nodes(run)
            folders = {node.node_rank: node.undelivered for node in reached if node.undelivered is not None}
            if not reached:  # the controller was killed
                folders = dict.fromkeys(range(plan.layout.nodes))
        if not folders and path.exists() and (run / filenames.REPORT).exists():
            return json_files.load(path, Result), False
        if left_of_run(plan.run_id):
            raise UserError(f"{run}: expected a run that has ended, found processes of it on this machine")
        fetched = bool(folders) and _fetched(run, plan, tuple(folders), say)
        ending = read_ending(run)
        if ending is None:
            keep_ending(run, ending_of(read_run(run)))
        elif fetched:
            undelivered = [folder for folder in folders.values() if folder]
            notes = tuple(note for note in ending.notes if not any(folder in note for folder in undelivered))
            json_files.save(run / filenames.ENDING, replace(ending, notes=notes))
        elif folders and path.exists():
            return json_files.load(path, Result), False
        plugins = plugins_for((plugin.role, plugin.name) for plugin in plan.plugins)
        return check(save_result(run, plan), run, plugins, recorded_findings(run)), True


def _fetched(run: Path, plan: Plan, nodes: tuple[int, ...], say: Callable[[str], None]) -> bool:
    """Have the launcher of a run bring the records of these nodes; returns whether it has."""
    hosts = tuple(plan.nodes[rank].host for rank in nodes)
    try:
        options = user_config(Path.cwd()).tables.launchers.get(plan.launcher, {})
        launcher = installed_launcher(plan.launcher, plan.vendor)
        try:
            offered = launcher.nodes(NodeRequest(nodes=len(nodes), devices=None, hosts=hosts, options=options))
            remote = remote_nodes(launcher, plan.interpreter)
            lines = remote.fetch(run, plan, dict(zip(nodes, offered, strict=False)))
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
    paths = [run / filenames.PLAN, *(run / filenames.RECORDS).iterdir()]
    at = utc_time(max(path.stat().st_mtime for path in paths))  # of the last record, by the file system
    finished = {rank.rank for rank in records.ranks}
    if len(finished) == plan.layout.world_size:
        return Ending(cause="ended", at=at, notes=(NOTE,))
    steps = f"{records.steps.complete} of {plan.spec.contract.steps} steps are recorded"
    message = f"llmperf was killed, or this machine stopped, before the run ended; {steps}"
    if records.failures:
        first = min(records.failures, key=lambda failure: failure.at)
        message += f"; rank {first.rank} recorded {first.exception}: {first.message}"
    return Ending(cause="controller", message=message, at=at, notes=(NOTE,))
