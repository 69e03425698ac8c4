"""The result of a run whose controller ended without writing one: killed, or by a power cut."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from llmperf.errors import LlmperfError, UserError
from llmperf.files import json_files
from llmperf.files.text import secret_values
from llmperf.measuring.processes import left_of_run
from llmperf.planning.launchers import installed_launcher, remote_nodes
from llmperf.planning.states import LOCAL
from llmperf.planning.user_config import user_config
from llmperf.results.run_result import build_result
from llmperf.runfolder import filenames
from llmperf.runfolder.contents import RunRecords, read_run
from llmperf.runfolder.create import held, load_plan, release
from llmperf.runfolder.endings import Ending, read_ending, read_nodes
from llmperf.runfolder.logs import shorten
from llmperf.types.launching import NodeRequest
from llmperf.types.plan import Plan
from llmperf.types.result import Result

NOTE = "llmperf ended without a result; `llmperf recover` made this one from the records"


def recover(run: Path, say: Callable[[str], None] = lambda line: None) -> tuple[Result, bool]:
    """The result of a run folder, made from its plan and records if there is none, and whether it was made now.

    Records that are still on the nodes of the run are fetched first; `say` gets a line for each. The result is saved
    with its findings and its report. UserError for a folder that is no run's, or whose run is going on.
    """
    from llmperf.plugins.loading import plugins_for
    from llmperf.running.measure import check
    from llmperf.validation.run_folder import recorded_findings

    plan = load_plan(run)
    if plan.purpose != "run":
        raise UserError(f"{run}: expected a run, found a plan with purpose {plan.purpose!r}, which has no result")
    with held(run):
        left = nodes_with_records(run, plan)
        if not left and (run / filenames.RESULT).exists() and (run / filenames.REPORT).exists():
            return json_files.load(run / filenames.RESULT, Result), False
        if left_of_run(plan.run_id):
            raise UserError(f"{run}: expected a run that has ended, found processes of it on this machine")
        folders = {node.node_rank: node.undelivered for node in read_nodes(run)}
        fetched = _fetched(run, plan, left, say) if left else ()
        ending = read_ending(run)
        if ending is not None and fetched:
            told = {folders[rank] for rank in fetched}
            notes = tuple(note for note in ending.notes if not any(folder and folder in note for folder in told))
            json_files.save(run / filenames.ENDING, replace(ending, notes=notes))
        elif ending is not None and left and (run / filenames.RESULT).exists():
            return json_files.load(run / filenames.RESULT, Result), False
        elif ending is None:
            ending = ending_of(read_run(run))
            release(run)
            for log in sorted((run / filenames.LOGS).glob("*.log")):
                shorten(log)
            json_files.save(run / filenames.ENDING, ending)
        result = build_result(run, secret_values({**os.environ, **plan.env}))
        json_files.save(run / filenames.RESULT, result)
        plugins = plugins_for((plugin.role, plugin.name) for plugin in plan.plugins)
        return check(result, run, plugins, recorded_findings(run)), True


def nodes_with_records(run: Path, plan: Plan) -> tuple[int, ...]:
    """The nodes whose records may not all be in the run folder: all of them if the controller was killed."""
    if plan.launcher == LOCAL or plan.layout.nodes == 1:
        return ()
    reached = read_nodes(run)
    if not reached:
        return tuple(range(plan.layout.nodes))
    return tuple(node.node_rank for node in reached if node.undelivered is not None)


def _fetched(run: Path, plan: Plan, nodes: tuple[int, ...], say: Callable[[str], None]) -> tuple[int, ...]:
    """Have the launcher of a run bring the records of these nodes; returns the nodes that have answered."""
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
        return ()
    for line in lines:
        say(line)
    return nodes


def ending_of(records: RunRecords) -> Ending:
    """Ending of a run that only its ranks have recorded: `ended` if every rank had finished, otherwise `controller`."""
    plan, at = records.plan, _last_change(records.run)
    finished = {rank.rank for rank in records.ranks}
    if len(finished) == plan.layout.world_size:
        return Ending(cause="ended", at=at, notes=(NOTE,))
    steps = f"{records.steps.complete} of {plan.spec.contract.steps} steps are recorded"
    message = f"llmperf was killed, or this machine stopped, before the run ended; {steps}"
    if records.failures:
        first = min(records.failures, key=lambda failure: failure.at)
        message += f"; rank {first.rank} recorded {first.exception}: {first.message}"
    return Ending(cause="controller", message=message, at=at, notes=(NOTE,))


def _last_change(run: Path) -> str:
    """Time of the last record, by the file system; UTC, ISO 8601."""
    paths = [run / filenames.PLAN, *(run / filenames.RECORDS).iterdir()]
    seconds = max(path.stat().st_mtime for path in paths)
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).isoformat(timespec="seconds")
