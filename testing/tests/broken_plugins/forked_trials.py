"""Trials of the kit whose ranks are forks of this process: they train as in a real run, and start at once."""

from __future__ import annotations

import ctypes
import datetime
import os
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest
from llmperf.files import json_files
from llmperf.launching.agent import RankPhases, rank_environment
from llmperf.launching.run_here import this_host
from llmperf.measuring.worker import Worker, fail
from llmperf.results.run_result import build_result
from llmperf.runfolder import filenames
from llmperf.runfolder.create import create_run_folder
from llmperf.runfolder.endings import AgentReport, Ending, RankExit
from llmperf.runfolder.reader import Recorder, RecordFile, by_step
from llmperf.types import Facts, StepRecord
from llmperf_testing import framework, subject
from llmperf_testing.observations import Fresh, RankEnd
from llmperf_testing.programs import expected, rank
from llmperf_testing.programs.fresh import error_line

PATIENCE_SECONDS = 60.0


def use_forks(monkeypatch: pytest.MonkeyPatch, kept: dict) -> None:
    """From now on trials are forks and the reference computes in this process, once for each plan, kept in `kept`."""
    # NumPy multiplies on one thread: those of several forks would wait for one another
    for path in (Path(numpy.__file__).parent.parent / "numpy.libs").glob("libscipy_openblas64_*"):
        ctypes.CDLL(str(path)).scipy_openblas_set_num_threads64_(1)
    fresh = Fresh(imported_by_discovery=False, bare_cpu_seconds=0.01)
    monkeypatch.setattr(subject, "observe", lambda *_, **__: fresh)
    monkeypatch.setattr(framework, "train", train)
    monkeypatch.setattr(framework, "leave_with_an_error", leave_with_an_error)

    def known(plan, run, steps, late):
        key = (str(plan.spec), plan.batch, steps, late)
        if key not in kept:
            kept[key] = expected.expected(plan, steps, late)
        return kept[key]

    monkeypatch.setattr(framework, "expected", known)


def forked(work: Callable[[int], None], plan, run: Path) -> tuple[RankExit, ...]:
    """Do `work(rank)` in a process for each rank; how they ended."""
    ranks = range(plan.layout.world_size)
    phases = [RankPhases(filenames.records_path(run, number)) for number in ranks]
    running = {_started(work, plan, run, number): number for number in ranks}
    exits, deadline = {}, time.monotonic() + PATIENCE_SECONDS
    while running:
        for process, number in list(running.items()):
            phases[number].look()
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                del running[process]
                exits[number] = process, os.waitstatus_to_exitcode(status)
                phases[number].look()
        failed = any(code for _, code in exits.values())
        for process in running if failed or time.monotonic() > deadline else ():  # they may wait for the others
            os.kill(process, signal.SIGKILL)
        time.sleep(0.002)
    return tuple(
        RankExit(rank=number, pid=pid, exit_code=code, at=time.time(), phases=phases[number].seen)
        for number, (pid, code) in sorted(exits.items())
    )


def _started(work: Callable[[int], None], plan, run: Path, number: int) -> int:
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        os.environ.update(rank_environment(run, plan, 0, number, "127.0.0.1", 1))
        log = os.open(filenames.log_path(run, number), os.O_WRONLY | os.O_CREAT, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        work(number)
        status = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)


def train(plan, plugins, run: Path) -> framework.Trained:
    """A run as `llmperf run` makes it, but for its processes."""
    began = time.monotonic()
    create_run_folder(run, plan)
    json_files.save(run / filenames.MACHINE, this_host(plan.env, Facts()))

    def work(number: int) -> None:
        with Recorder(filenames.records_path(run, number)) as recorder:
            worker = Worker(run, number, recorder)
            try:
                worker.live()
            except Exception as error:
                fail(recorder, number, error, worker.place)

    exits = forked(work, plan, run)
    json_files.save(filenames.agent_report_path(run, 0), AgentReport(node_rank=0, pid=os.getpid(), ranks=exits))
    bad = any(one.bad for one in exits)
    now = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1)
    at = now.isoformat(timespec="seconds")
    json_files.save(run / filenames.ENDING, Ending(cause="ended", at=at, agents=(int(bad),)))
    result = build_result(run)
    json_files.save(run / filenames.RESULT, result)
    files = map(RecordFile, filenames.record_files(run))
    steps = [[record for record in file if isinstance(record, StepRecord)] for file in files]
    return framework.Trained(plan=plan, result=result, steps=by_step(steps), seconds=time.monotonic() - began)


def leave_with_an_error(plan, run: Path, late) -> framework.Ends:
    """All steps, and how the ranks leave."""
    create_run_folder(run, plan)

    def work(number: int) -> None:
        try:
            end = rank.lived(plan, number, run, late)
        except Exception as error:
            end = RankEnd(rank=number, error=error_line(error))
        json_files.save(run / f"end-{number}.json", end)

    ranks = range(len(forked(work, plan, run)))
    return framework.Ends(ranks=tuple(json_files.load(run / f"end-{number}.json", RankEnd) for number in ranks))
