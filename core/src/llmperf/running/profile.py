"""`llmperf profile`: a few steps of a planned run under the framework's profiler, against the estimate by kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from llmperf.errors import PluginError, RunFailed, UserError
from llmperf.estimating.analytic import analytic_trace, wrong_profile
from llmperf.estimating.estimate import for_rank
from llmperf.estimating.step_time import operation_times
from llmperf.files import json_files
from llmperf.measuring.profiled import HOOK, TASK, ProfileTask
from llmperf.planning.build import run_id
from llmperf.planning.states import Planned
from llmperf.results.failure import outcome
from llmperf.runfolder.filenames import records_path
from llmperf.runfolder.reader import read_records
from llmperf.running.launched import SAMPLE_SECONDS, keep_records, run_ranks
from llmperf.types.profile import StepProfile
from llmperf.types.records import ProfileRecord
from llmperf.types.tracing import OperationKind

PROFILE = "profile.json"
"""The profile in the run folder."""
LABEL = "profiled: the profiler slows the steps down, so that this is no measurement"


@dataclass(frozen=True, slots=True, kw_only=True)
class KindTime:
    """Time of a step in operations of one kind."""

    kind: OperationKind
    """What they compute."""
    seconds: float
    """By the profile."""
    estimated_seconds: float | None
    """By the analytic estimate and the rates of the device; None without rates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The document of `llmperf profile --json`."""

    label: str
    """That this is no measurement."""
    folder: str
    """The run folder."""
    rates: str | None
    """What the estimate assumes: `measured` or `assumed` rates; None without rates."""
    kinds: tuple[KindTime, ...]
    """Longest first."""
    profile: StepProfile
    """What the profiler showed."""


def profile_run(planned: Planned, out: Path, task: ProfileTask, warn: Callable[[str], None]) -> Profile:
    """Profile a planned run in a new folder below `out`.

    UserError if the framework has no profiler or the rank does not exist; RunFailed if a rank fails.
    """
    plan = planned.plan
    name = plan.spec.tuning.framework
    if plan.worker.script is not None or not planned.plugins.answers(HOOK):
        raise UserError(f"tuning.framework: {name} has no profiler here; expected a framework that has one")
    if task.rank >= plan.layout.world_size:
        raise UserError(f"--rank: expected at most {plan.layout.world_size - 1}, found {task.rank}")
    files = {**plan.worker.files, TASK: json_files.encode_pretty(task).decode()}
    run = out / run_id(f"profile-{plan.spec.case}", plan.vendor, name)
    plan = replace(
        plan,
        run_id=run.name,
        purpose="profile",
        worker=replace(plan.worker, files=files),
        notes=(*plan.notes, LABEL),
    )
    records = run_ranks(plan, run, planned.plugins, None, warn, SAMPLE_SECONDS, planned.machine.launcher, keep_records)
    failure = outcome(records)[1]
    if failure is not None:
        tail = "".join(f"\n  {line}" for line in failure.log_tail[-5:])
        where = "" if failure.rank is None else f"rank {failure.rank} {failure.reason}: "
        raise RunFailed(f"{where}{failure.message}{tail}")
    read = read_records(records_path(run, task.rank))
    known = [record.profile for record in read if isinstance(record, ProfileRecord)]
    if not known:
        raise RunFailed(f"{run}: rank {task.rank} recorded no profile")
    for wrong in filter(None, map(wrong_profile, known)):
        raise PluginError(f"{name}: {HOOK}: {wrong}")
    profile = StepProfile.mean(known)
    estimated: dict[OperationKind, float] = {}
    rates = None if plan.rates is None else for_rank(plan.rates, plan)
    if rates is not None:
        for item in operation_times(analytic_trace(plan, task.rank), rates, plan.batch.gradient_accumulation):
            estimated[item.kind] = estimated.get(item.kind, 0.0) + (item.seconds or 0.0)
    measured = profile.seconds_by_kind
    kinds = sorted({*measured, *estimated}, key=lambda kind: -measured.get(kind, 0.0))
    document = Profile(
        label=LABEL,
        folder=str(run),
        rates=None if plan.rates is None else plan.rates.basis,
        kinds=tuple(
            KindTime(
                kind=kind,
                seconds=measured.get(kind, 0.0),
                estimated_seconds=None if rates is None else estimated.get(kind, 0.0),
            )
            for kind in kinds
        ),
        profile=profile,
    )
    json_files.save(run / PROFILE, document)
    return document
