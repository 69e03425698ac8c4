"""Why a run is not complete, and with which rank that began."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from llmperf.errors import PluginError
from llmperf.runfolder import filenames
from llmperf.runfolder.contents import RunRecords
from llmperf.runfolder.endings import Ending, RankExit
from llmperf.runfolder.logs import log_tail
from llmperf.types.plan import Plan
from llmperf.types.records import FailureRecord
from llmperf.types.result import Failure

LOG_LINES = 20
STACK_LINES = 60
"""Of a rank that hung: its log ends with its stacks, innermost frames first."""
SIGNAL_LAG_SECONDS = 0.25
"""A rank that was killed ended up to this long before its agent saw it; its peers' complaints come in between."""

Status = Literal["complete", "failed", "aborted"]
Reason = Literal["exception", "killed", "exited", "hung", "nonfinite loss", "interrupted", "controller"]


@dataclass(frozen=True)
class _Cause:
    """One rank's end, with the time it began at."""

    at: float
    rank: int
    reason: Reason
    exception: str | None
    message: str


def outcome(records: RunRecords) -> tuple[Status, Failure | None]:
    """Whether a run is complete, and if not, why."""
    ending = records.ending
    if ending is None:
        return "failed", _failure(records, None, "controller", None, "llmperf itself ended before the run did")
    if ending.cause == "interrupted":
        return "aborted", _failure(records, None, "interrupted", None, ending.message)
    if ending.cause == "hung":
        return "failed", _failure(records, ending.rank, "hung", None, ending.message)
    if ending.cause == "controller":
        return "failed", _failure(records, None, "controller", ending.exception, ending.message)
    failure = _of_ranks(records) or _of_agents(records, ending) or _unfinished(records) or _miscounted(records)
    return ("failed", failure) if failure else ("complete", None)


def _of_ranks(records: RunRecords) -> Failure | None:
    """The rank that ended badly first."""
    exits = {one.rank: one for report in records.reports for one in report.ranks if one.bad}
    failed = {one.rank: one for one in records.failures}
    causes = [_exception(records, one) for one in failed.values()]
    causes += [_exit(one) for rank, one in exits.items() if rank not in failed]
    if causes:  # of one that left without a word the others may only have complained
        causes += [_left(one) for one in _leavers(records)]
    if not causes:
        return None
    first = min(causes, key=lambda one: (one.at, one.rank))
    return _failure(records, first.rank, first.reason, first.exception, first.message)


def _leavers(records: RunRecords) -> Iterator[RankExit]:
    """Ranks that ended with status 0 before they had finished."""
    finished = {one.rank for one in records.ranks} | {one.rank for one in records.failures}
    ended = (one for report in records.reports for one in report.ranks)
    yield from (one for one in ended if one.exit_code == 0 and not one.stopped and one.rank not in finished)


def _left(one: RankExit) -> _Cause:
    at = (one.at or 0.0) - SIGNAL_LAG_SECONDS
    when = f"while {one.unfinished_phase}, before it was done" if one.unfinished_phase else "before its last step"
    return _Cause(at, one.rank, "exited", None, f"rank {one.rank} ended with status 0 {when}")


def _exception(records: RunRecords, failure: FailureRecord) -> _Cause:
    nonfinite = any(one.rank == failure.rank and one.nonfinite is not None for one in records.steps)
    reason: Reason = "nonfinite loss" if nonfinite else "exception"
    return _Cause(failure.at, failure.rank, reason, failure.exception, failure.message)


def _exit(one: RankExit) -> _Cause:
    at = one.at or 0.0
    if one.signal is not None:
        return _Cause(at - SIGNAL_LAG_SECONDS, one.rank, "killed", None, f"rank {one.rank} was killed by {one.signal}")
    if one.unfinished_phase is not None:
        return _left(one)
    return _Cause(at, one.rank, "exited", None, f"rank {one.rank} ended with status {one.exit_code}")


def _of_agents(records: RunRecords, ending: Ending) -> Failure | None:
    """An agent that ended badly though none of its ranks is known to have."""
    for node, code in enumerate(ending.agents):
        if code == 0:
            continue
        if code is not None and code > 0:
            message, reason = f"the agent of node {node} ended with status {code}", "exited"
        else:
            message, reason = f"the agent of node {node} was killed{_by_signal(code)}", "killed"
        tail = log_tail(filenames.agent_log_path(records.run, node), LOG_LINES, records.secrets)
        return Failure(rank=None, reason=reason, exception=None, message=message, log_tail=tail)  # type: ignore[arg-type]
    return None


def _by_signal(code: int | None) -> str:
    import signal

    try:
        return "" if code is None else f" by {signal.Signals(-code).name}"
    except ValueError:
        return f" by signal {-(code or 0)}"


def _unfinished(records: RunRecords) -> Failure | None:
    """A rank that ended well before its end."""
    finished = {one.rank for one in records.ranks}
    for rank in range(records.plan.layout.world_size):
        if rank not in finished:
            return _failure(records, rank, "exited", None, f"rank {rank} ended with status 0 before its last step")
    return None


def _miscounted(records: RunRecords) -> Failure | None:
    """More tokens in a step than the plan has, or none: the framework counts wrongly, and no figure would hold."""
    planned, wrong = records.plan.batch.tokens_per_step, []
    for step, ranks in records.complete_steps.items():
        reported = sum(one.tokens for one in ranks)
        if reported > planned or reported <= 0 or any(one.tokens < 0 for one in ranks):
            wrong.append((step, reported))
    if not wrong:
        return None
    step, reported = wrong[0]
    what = f"the ranks report {reported} tokens in step {step}, the first of {len(wrong)} such, the plan has {planned}"
    message = f"{_framework(records.plan)}: {what}; each token is counted once, by one rank"
    return _failure(records, None, "exception", f"{PluginError.__module__}.{PluginError.__qualname__}", message)


def _framework(plan: Plan) -> str:
    """As errors name it."""
    name = plan.spec.tuning.framework
    found = (one.distribution for one in plan.plugins if (one.role, one.name) == ("framework", name))
    return f"framework {name!r} ({next(found, 'of no distribution')})"


def _failure(records: RunRecords, rank: int | None, reason: Reason, exception: str | None, message: str) -> Failure:
    lines = STACK_LINES if reason == "hung" else LOG_LINES
    tail = () if rank is None else log_tail(filenames.log_path(records.run, rank), lines, records.secrets)
    return Failure(rank=rank, reason=reason, exception=exception, message=message, log_tail=tail)
