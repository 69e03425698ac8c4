"""One run: folder, launch, watch, result. Every run ends all its processes and leaves a result with the outcome."""

from __future__ import annotations

import math
import os
import secrets
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar

from llmperf.errors import RunFailed, UserError
from llmperf.files import json_files
from llmperf.files.text import secret_values, utc_time, without_secrets
from llmperf.launching.controller import Controller
from llmperf.launching.run_here import RunHere
from llmperf.launching.wakeup import Wakeup
from llmperf.planning.build import run_id
from llmperf.planning.host_facts import package_versions
from llmperf.planning.nodes import open_launcher
from llmperf.planning.ready import peak_again
from llmperf.planning.states import LOCAL, Planned
from llmperf.plugins.facts import joined_facts
from llmperf.plugins.loading import Plugins
from llmperf.results.failure import outcome
from llmperf.results.run_result import result_of
from llmperf.runfolder import filenames
from llmperf.runfolder.contents import RunRecords, read_run
from llmperf.runfolder.create import create_run_folder, held, release
from llmperf.runfolder.endings import Ending, read_reports
from llmperf.runfolder.logs import shorten
from llmperf.runfolder.reader import Moment, RecordFile, samples_of
from llmperf.types.observing import Progress, StepProgress
from llmperf.types.plan import Plan
from llmperf.types.rank_tasks import FinishedTask
from llmperf.types.records import Record
from llmperf.types.remote import Agents, OpenLauncher
from llmperf.types.result import Result

T = TypeVar("T")

SAMPLE_SECONDS = 1.0
PEAK_AGAIN_SECONDS = 1.0
"""The peak is measured again after a measured window of at least so long."""


class Following(Protocol):
    """Consumers of the progress of a run."""

    def started(self, plan: Plan, folder: Path) -> None:
        """The ranks are about to start."""

    def observe(self, progress: Progress, steps: Sequence[StepProgress]) -> None:
        """Several times a second, with the steps that have finished since the last call."""


def ended(run: Path, plan: Plan, ending: Ending | None = None) -> RunRecords:
    """The records of a run that has ended; its `ending` is saved if one is given."""
    if ending is not None:
        keep_ending(run, ending)
    return read_run(run, secret_values({**os.environ, **plan.env}))


def save_result(records: RunRecords) -> Result:
    """Compute the result of a run, and save it in its folder."""
    result = result_of(records)
    json_files.save(records.run / filenames.RESULT, result)
    return result


def run_plan(
    plan: Plan,
    run_dir: Path,
    plugins: Plugins,
    conclude: Callable[[RunRecords], T],
    observers: Following | None = None,
    warn: Callable[[str], None] | None = None,
    sample_seconds: float = SAMPLE_SECONDS,
    launcher: OpenLauncher | None = None,
) -> T:
    """Run the ranks of a plan in a new folder, and return what `conclude` makes of their records in the end.

    `launcher` has given the plan's nodes; `warn` gets a line for each thing that disturbs the run. SIGINT, SIGTERM and
    SIGHUP end it as `aborted`. The caller tells `observers` the end.
    """
    remote = None
    if plan.launcher != LOCAL:
        remote = (launcher or open_launcher(plan.launcher, plan.vendor)).remote(plan.interpreter)
    began = Moment.now()
    try:
        run = run_dir.absolute()
    except FileNotFoundError:
        raise UserError(f"{run_dir}: the working directory does not exist any more") from None
    create_run_folder(run, plan)
    tag = f"{plan.run_id}-{secrets.token_hex(8)}"

    here = None if remote else RunHere(run, plan, plugins, tag, sample_seconds)

    def agents() -> Agents:
        if here is not None:
            here.meet(plan.nodes[0].address, plan.nodes[0].env)
            return here
        assert remote is not None
        public = without_secrets(plan.env)
        hidden = {name: value for name, value in plan.env.items() if name not in public}
        return remote.agents(run, plan, tag, hidden, sample_seconds, warn)

    controller = Controller(run, plan, agents, joined_facts(plugins).waiting_frames)
    with held(run), Wakeup(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as wakeup:
        try:
            if (busy := here.look() if here else None) is not None and warn is not None:
                warn(busy)
            if observers is not None:
                observers.started(plan, run)
            try:
                cause, codes = controller.run(wakeup, observers.observe if observers else None)
            finally:
                problem = here.close() if here else None
            if observers is not None:
                observers.observe(*controller.latest())
            again = peak_again(plan, plugins) if here and cause == "ended" and _was_long(run, codes) else None
            ending = _ending(
                cause,
                began,
                rank=controller.rank,
                node=controller.node,
                message=controller.message,
                agents=codes,
                notes=(*controller.notes, *((problem,) if problem else ())),
                peak_again=again,
            )
        except BaseException as error:
            codes = controller.stop()
            failed = _ending("controller", began, message=str(error), exception=type(error).__name__, agents=codes)
            with suppress(UserError):  # the error that matters is the one being raised
                conclude(ended(run, plan, failed))
            raise
        return conclude(ended(run, plan, ending))


def _was_long(run: Path, codes: Sequence[int | None]) -> bool:
    """Check whether a run ended well, with a window so long that the peak is worth another measurement."""
    ranks = [rank for report in read_reports(run) for rank in report.ranks]
    seen = [{phase.phase: phase.monotonic for phase in rank.phases} for rank in ranks]
    windows = [of.get("evaluating", 0.0) - of.get("measuring", math.inf) for of in seen]
    return not any(codes) and max(windows, default=0.0) >= PEAK_AGAIN_SECONDS


def _ending(cause: str, began: Moment, **known: object) -> Ending:
    """An ending now, by the wall clock at the start of the run plus elapsed time: the clock may have been set since."""
    at = utc_time(began.at + time.monotonic() - began.monotonic)
    return Ending(cause=cause, at=at, **known)  # type: ignore[arg-type]


class Task:
    """Implements `llmperf.types.PlannedTask`."""

    def __init__(self, planned: Planned, warn: Callable[[str], None]) -> None:
        self._planned, self._warn = planned, warn
        self.plan, self.answers = planned.plan, planned.answers

    def run(
        self, out: Path, name: str, task: object, note: str, show: Callable[[Record], None] | None = None
    ) -> FinishedTask:
        """Have the ranks do a task in a new folder below `out`."""
        plan, plugins = self.plan, self._planned.plugins
        files = {**plan.worker.files, f"{name}.json": json_files.encode_pretty(task).decode()}
        run = out / run_id(f"{name}-{plan.spec.case}", plan.vendor, plan.spec.tuning.framework)
        worker = replace(plan.worker, files=files, script=None)
        recorders = plugins.answering("llmperf_rank_tasks", "extension")
        plan = replace(
            plan, run_id=run.name, purpose=name, worker=worker, recorders=recorders, notes=(*plan.notes, note)
        )
        launcher, shown = self._planned.machine.launcher, None if show is None else _Shown(show)
        records = run_plan(plan, run, plugins, lambda ended: ended, shown, self._warn, launcher=launcher)
        failure = outcome(records)[1]
        if failure is not None:
            tail = "".join(f"\n  {line}" for line in failure.log_tail[-5:])
            where = "" if failure.rank is None else f"rank {failure.rank} {failure.reason}: "
            raise RunFailed(f"{where}{failure.message}{tail}")
        node, samples = records.readings.get(0), samples_of(run, plan.layout.nodes)
        heat = [device.temperature_celsius for sample in samples for device in sample.devices]
        known = sorted(celsius for celsius in heat if celsius is not None)
        return FinishedTask(
            folder=run,
            packages=package_versions(joined_facts(plugins).packages),
            other_cpu_share=None if node is None else node.load.share,
            other_processes=None if node is None else node.other_processes,
            throttled=tuple(sorted(node.throttled)) if node is not None and node.throttle_known else None,
            celsius=(known[0], known[-1]) if known else None,
        )


class _Shown:
    """Hands on the records of rank 0 while the ranks run."""

    def __init__(self, show: Callable[[Record], None]) -> None:
        self._show = show

    def started(self, plan: Plan, folder: Path) -> None:
        self._records = RecordFile(filenames.records_path(folder, 0))

    def observe(self, progress: Progress, steps: Sequence[StepProgress]) -> None:
        for record in self._records.new():
            self._show(record)


def keep_ending(run: Path, ending: Ending) -> None:
    """Save how a run ended; its logs are shortened, and the space that was reserved is given back."""
    release(run)
    for log in sorted((run / filenames.LOGS).glob("*.log")):  # of agents, and of ranks whose agent was killed
        shorten(log)
    json_files.save(run / filenames.ENDING, ending)
