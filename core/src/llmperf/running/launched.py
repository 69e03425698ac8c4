"""One run: folder, launch, watch, result. Every run ends all its processes and leaves a result with the outcome."""

from __future__ import annotations

import datetime
import os
import secrets
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.files.text import secret_values
from llmperf.launching.controller import Controller, port_was_taken
from llmperf.launching.host import this_host
from llmperf.launching.wakeup import Wakeup
from llmperf.measuring.sampler import Sampler
from llmperf.planning.launchers import find_launcher
from llmperf.plugins.asking import asking
from llmperf.plugins.facts import joined_facts
from llmperf.plugins.faults import who
from llmperf.plugins.loading import Plugins
from llmperf.results.build import build_result
from llmperf.runfolder import filenames
from llmperf.runfolder.create import create_run_folder, release
from llmperf.runfolder.endings import Ending
from llmperf.runfolder.logs import shorten
from llmperf.runfolder.recorder import Moment
from llmperf.running.observers import Observers
from llmperf.types.devices import DeviceSample, Facts
from llmperf.types.plan import Plan
from llmperf.types.result import Result

SAMPLE_SECONDS = 1.0


def run_plan(
    plan: Plan,
    run_dir: Path,
    plugins: Plugins,
    observers: Observers | None = None,
    warn: Callable[[str], None] | None = None,
    sample_seconds: float = SAMPLE_SECONDS,
) -> Result:
    """Run a plan in a new folder and return its result, saved there as `result.json` in every case.

    `observers` follow the run; its end is reported to them by the caller, who has the checked result. `warn` is called
    before the start with a line for each thing that disturbs the run. SIGINT, SIGTERM and SIGHUP end the run as
    `aborted`. UserError if the plan has problems, the folder cannot be made or the launcher is not installed.
    """
    if plan.problems:
        raise UserError(f"{plan.problems[0].where}: {plan.problems[0].message}")
    if not plan.worker.agent:
        raise UserError(
            f"plan.worker.agent: framework {plan.spec.tuning.framework!r} gave no command that starts its ranks"
        )
    if len(plan.nodes) < plan.layout.nodes:
        raise UserError(f"plan.nodes: expected {plan.layout.nodes} nodes, found {len(plan.nodes)}")
    launcher = find_launcher(plugins, plan.launcher)
    facts = joined_facts(plugins)
    began = Moment.now()
    run = _absolute(run_dir)
    create_run_folder(run, plan)
    controller = Controller(run, plan, launcher, f"{plan.run_id}-{secrets.token_hex(8)}", facts.waiting_frames)
    sampler = _sampler(run, plan, plugins, sample_seconds)
    with Wakeup(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as wakeup:
        try:
            ending = _watched(run, plan, facts, controller, sampler, wakeup, observers, warn, began)
        except BaseException as error:
            codes = controller.stop()
            failed = _ending("controller", began, message=str(error), exception=type(error).__name__, agents=codes)
            with suppress(UserError):  # the error that matters is the one being raised
                _conclude(run, plan, failed)
            raise
        return _conclude(run, plan, ending)


def _absolute(folder: Path) -> Path:
    """The absolute path of a folder; UserError if the working directory does not exist any more."""
    try:
        return folder.absolute()
    except FileNotFoundError:
        raise UserError(f"{folder}: the working directory does not exist any more") from None


def _watched(
    run: Path,
    plan: Plan,
    facts: Facts,
    controller: Controller,
    sampler: Sampler,
    wakeup: Wakeup,
    observers: Observers | None,
    warn: Callable[[str], None] | None,
    began: Moment,
) -> Ending:
    before = sampler.look()
    json_files.save(run / filenames.MACHINE, replace(this_host(plan.env, facts), **before._asdict()))
    if warn is not None:
        for line in before.lines:
            warn(line)
    if observers is not None:
        observers.started(plan, run)
    controller.start()
    sampler.start()
    try:
        cause = controller.watch(wakeup, observers.observe if observers else None)
        codes = controller.stop(wakeup)
        if cause == "ended" and any(codes) and port_was_taken(run, plan):
            controller.start_again()
            cause = controller.watch(wakeup, observers.observe if observers else None)
            codes = controller.stop(wakeup)
    finally:
        sampler.stop()
    if observers is not None:
        observers.observe(*controller.latest())
    notes = controller.notes
    if sampler.problem:
        notes += (sampler.problem,)
    return _ending(cause, began, rank=controller.rank, message=controller.message, agents=codes, notes=notes)


def _ending(cause: str, began: Moment, **known: object) -> Ending:
    """An ending now, by the wall clock at the start of the run plus elapsed time: the clock may have been set since."""
    seconds = began.at + time.monotonic() - began.monotonic
    at = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).isoformat(timespec="seconds")
    return Ending(cause=cause, at=at, **known)  # type: ignore[arg-type]


def _conclude(run: Path, plan: Plan, ending: Ending) -> Result:
    release(run)
    for log in sorted((run / filenames.LOGS).glob("*.log")):  # of agents, and of ranks whose agent was killed
        shorten(log)
    json_files.save(run / filenames.ENDING, ending)
    result = build_result(run, secret_values({**os.environ, **plan.env}))
    json_files.save(run / filenames.RESULT, result)
    return result


def _sampler(run: Path, plan: Plan, plugins: Plugins, interval: float) -> Sampler:
    here = plan.launcher == "local" and plan.layout.nodes == 1
    if not plugins.answers("llmperf_query_memory"):
        return Sampler(run / filenames.MEMORY, lambda _: (), (), interval, here)
    used = plan.probe.devices if plan.device_share < 1 else plan.probe.devices[: plan.layout.devices_per_node]
    hook = "llmperf_query_memory"

    def query(devices: tuple[int, ...]) -> tuple[DeviceSample, ...]:
        with asking(who(plugins.owner(hook)), hook):
            return tuple(plugins.ask(hook, devices=devices))

    return Sampler(run / filenames.MEMORY, query, tuple(device.index for device in used), interval, here)
