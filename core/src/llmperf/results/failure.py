"""The reason why a run is not complete, with which rank that began, and how far a run without a result came."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from llmperf.errors import PluginError, UserError
from llmperf.runfolder import filenames
from llmperf.runfolder.contents import RunRecords, read_run
from llmperf.runfolder.endings import Ending, RankExit
from llmperf.runfolder.logs import log_tail
from llmperf.types.result import Failure

LOG_LINES = 20
STACK_LINES = 60
"""Lines for a rank that hung: its log ends with its stacks, innermost frames first."""
SIGNAL_LAG_SECONDS = 0.25
"""Largest delay until an agent sees that a rank was killed; errors of the other ranks may come in between."""

OUT_OF_MEMORY = ": the host, or the control group of the run, was out of memory"

Status = Literal["complete", "failed", "aborted"]
Reason = Literal["exception", "killed", "exited", "hung", "lost", "nonfinite loss", "interrupted", "controller"]


@dataclass(frozen=True)
class _Cause:
    """Ending of one rank, and its time."""

    at: float
    """Seconds since the epoch by the clock of the rank's node."""
    rank: int
    reason: Reason
    exception: str | None
    message: str


def outcome(records: RunRecords) -> tuple[Status, Failure | None]:
    """Status of a run, and its failure unless it is complete, with the end of the log of the rank or agent at fault."""
    status, failure = _outcome(records)
    if failure is None:
        return status, None
    lines = STACK_LINES if failure.reason == "hung" else LOG_LINES
    if failure.rank is not None:
        path = filenames.log_path(records.run, failure.rank)
    elif failure.reason in ("lost", "killed", "exited"):  # the agent of a node
        path = filenames.agent_log_path(records.run, failure.node_rank or 0)
    else:
        return status, failure
    return status, replace(failure, log_tail=log_tail(path, lines, records.secrets))


def _outcome(records: RunRecords) -> tuple[Status, Failure | None]:
    plan, ending = records.plan, records.ending
    if ending is None:
        return "failed", _failure(records, None, "controller", None, "llmperf itself ended before the run did")
    if ending.cause == "lost":  # errors of other nodes may be due to it
        return "failed", _failure(records, None, "lost", None, ending.message, ending.node or 0)
    if ending.cause != "ended":
        status: Status = "aborted" if ending.cause == "interrupted" else "failed"
        return status, _failure(records, ending.rank, ending.cause, ending.exception, ending.message)
    failure = _of_ranks(records)
    if failure is None:
        failure = _of_agents(records, ending)
    elif failure.reason != "killed" or "SIGKILL" not in failure.message:  # ranks fail when their peers are gone
        killed = [node for node, code in enumerate(ending.agents) if code is not None and code < 0]
        if killed and failure.node_rank is not None and failure.node_rank not in killed:
            failure = _of_agents(records, ending)
    if failure is None and plan.purpose == "run":
        finished, wrong = {rank.rank for rank in records.ranks}, records.steps.first_miscounted
        missing = next((rank for rank in range(plan.layout.world_size) if rank not in finished), None)
        if missing is not None:
            message = f"rank {missing} ended with status 0 before its last step"
            failure = _failure(records, missing, "exited", None, message)
        elif wrong is not None:  # the framework counts wrongly, and no figure would be right
            name, count = plan.spec.tuning.framework, records.steps.miscounted
            owners = (known.distribution for known in plan.plugins if (known.role, known.name) == ("framework", name))
            message = (
                f"framework {name!r} ({next(owners, 'of no distribution')}): the ranks report {wrong[1]} tokens in step"
                f" {wrong[0]}, the first of {count} such, the plan has {plan.batch.tokens_per_step}; each token is"
                " counted once, by one rank"
            )
            error = f"{PluginError.__module__}.{PluginError.__qualname__}"
            failure = _failure(records, None, "exception", error, message)
    return ("failed", failure) if failure else ("complete", None)


def _of_ranks(records: RunRecords) -> Failure | None:
    """The rank that failed first by the controller's clock; of those within its error, one that is not an exception."""
    node_of = records.plan.layout.node_of
    failed, causes = {failure.rank: failure for failure in records.failures}, list[_Cause]()
    for rank, failure in failed.items():
        nonfinite = rank in records.by_rank and records.by_rank[rank].nonfinite
        reason: Reason = "nonfinite loss" if nonfinite else "exception"
        causes.append(_Cause(failure.at, rank, reason, failure.exception, failure.message))
    exits = [rank for report in records.reports for rank in report.ranks if rank.rank not in failed]
    causes += [_exit(rank) for rank in exits if rank.bad]
    if not causes:
        return None
    # errors of other ranks may be due to a rank that ended with status 0 before it had finished
    finished = {rank.rank for rank in records.ranks}
    causes += [_exit(rank) for rank in exits if rank.exit_code == 0 and not rank.stopped and rank.rank not in finished]

    def moment(cause: _Cause) -> tuple[float, float]:
        """Its time by the controller's clock, and the largest error of that."""
        reached = records.nodes.get(node_of(cause.rank))
        if reached is None or reached.clock_offset_seconds is None:
            return cause.at, 0.0
        return cause.at - reached.clock_offset_seconds, reached.clock_error_seconds or 0.0

    def order(cause: _Cause) -> tuple[float, int]:
        return moment(cause)[0], cause.rank

    first = min(causes, key=order)
    if first.exception is not None:
        at, error = moment(first)
        by_themselves = [
            cause for cause in causes
            if node_of(cause.rank) != node_of(first.rank) and cause.exception is None
            and moment(cause)[0] - at <= error + moment(cause)[1]
        ]  # fmt: skip
        first = min(by_themselves, key=order, default=first)
    return _failure(records, first.rank, first.reason, first.exception, first.message)


def _exit(rank: RankExit) -> _Cause:
    at = rank.at or 0.0
    if rank.signal is not None:
        message = f"rank {rank.rank} was killed by {rank.signal}{OUT_OF_MEMORY * rank.out_of_memory}"
        return _Cause(at - SIGNAL_LAG_SECONDS, rank.rank, "killed", None, message)
    if rank.exit_code == 0 or rank.unfinished_phase is not None:
        when = f"while {rank.unfinished_phase}, before it was done" if rank.unfinished_phase else "before its last step"
        message = f"rank {rank.rank} ended with status 0 {when}"
        return _Cause(at - SIGNAL_LAG_SECONDS, rank.rank, "exited", None, message)
    return _Cause(at, rank.rank, "exited", None, f"rank {rank.rank} ended with status {rank.exit_code}")


def _of_agents(records: RunRecords, ending: Ending) -> Failure | None:
    """An agent that failed, although none of its ranks is known to have failed."""
    asked_to_end = 128 + signal.SIGTERM
    failed = [(node, code) for node, code in enumerate(ending.agents) if code != 0]
    by_itself = [(node, code) for node, code in failed if code != asked_to_end]
    killed = [(node, code) for node, code in by_itself if code is not None and code < 0]
    for node, code in killed or by_itself or failed:
        agent = f"the agent of {_node(records, node)}"
        if code is not None and code > 0:
            return _failure(records, None, "exited", None, f"{agent} ended with status {code}", node)
        try:
            how = "" if code is None else f" by {signal.Signals(-code).name}"
        except ValueError:
            how = f" by signal {-(code or 0)}"
        return _failure(records, None, "killed", None, f"{agent} was killed{how}", node)
    return None


def _failure(
    records: RunRecords, rank: int | None, reason: Reason, exception: str | None, message: str, node: int | None = None
) -> Failure:
    layout = records.plan.layout
    if layout.nodes == 1 and reason != "lost":
        node = None
    elif rank is not None:
        node = layout.node_of(rank)
        place = _node(records, node) if message.startswith("rank ") else f"{_node(records, node)}, rank {rank}"
        message = f"{place}: {message}"
    return Failure(rank=rank, node_rank=node, reason=reason, exception=exception, message=message, log_tail=())


def _node(records: RunRecords, node: int) -> str:
    """A node as messages name it, such as `node 1 (gpu-17)`."""
    nodes = records.plan.nodes
    return f"node {node} ({nodes[node].host})" if len(nodes) > 1 and node < len(nodes) else f"node {node}"


def how_far(folder: Path, cut_off: str) -> str | None:
    """The reason why a run folder has no result: `cut_off` and its steps, or that it is a profile; else None."""
    begun = (folder / filenames.PLAN).is_file() and (folder / filenames.RECORDS).is_dir()
    if not begun or os.path.lexists(folder / filenames.RESULT):
        return None
    try:
        records = read_run(folder)
    except (UserError, ArithmeticError):
        return None
    if records.plan.purpose != "run":
        return f"its plan has purpose {records.plan.purpose!r}, which has no result"
    steps = f"{records.steps.complete} of {records.plan.spec.contract.steps} steps are recorded"
    return f"{cut_off}; {steps}; `llmperf recover` makes its result"
