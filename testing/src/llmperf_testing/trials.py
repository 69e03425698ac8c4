"""Training a plan for the kit: as a normal run, and with ranks that leave their trainer with an error."""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass, replace
from pathlib import Path

from llmperf.files import json_files
from llmperf.launching.agent import rank_environment
from llmperf.launching.launchers import free_port
from llmperf.plugins.loading import Plugins
from llmperf.runfolder import filenames
from llmperf.runfolder.create import create_run_folder
from llmperf.runfolder.reader import read_steps
from llmperf.running.launched import run_plan
from llmperf.types import Plan, Result, StepRecord

from llmperf_testing.check import ContractError, Skip
from llmperf_testing.children import MAX_OBSERVATION_BYTES, Child, observe
from llmperf_testing.late_tokens import LateTokens
from llmperf_testing.observations import RankEnd, Trajectory

STALL_SECONDS = 60.0
STARTUP_SECONDS = 240.0
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")}
"""For operations of small models, whose threads mostly wait on a busy host."""
SET_SECONDS = 0.005
SAMPLE_SECONDS = 1e6
"""Trials need no device readings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """The outcome of a real run."""

    plan: Plan
    """The plan that was run."""
    result: Result
    """Its result."""
    steps: dict[int, list[StepRecord]]
    """The records of all ranks, by step."""
    seconds: float
    """Wall time of the run as a whole."""

    @property
    def losses(self) -> dict[int, float]:
        """Mean of the ranks' losses, by step; none for a step without."""
        reported = {step: [one.loss for one in records if one.loss is not None] for step, records in self.steps.items()}
        return {step: statistics.fmean(losses) for step, losses in reported.items() if losses}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """How the ranks of a plan left with an error."""

    ranks: tuple[RankEnd, ...]
    """By rank."""
    clock_was_set: bool = False
    """The host's clock was set in the meantime."""

    @property
    def losses(self) -> list[float]:
        """Mean of the ranks' losses, by step."""
        columns = zip(*(one.losses for one in self.ranks), strict=True)
        return [
            statistics.fmean(reported)
            for column in columns
            if (reported := [loss for loss in column if loss is not None])
        ]


def train(plan: Plan, plugins: Plugins, run: Path) -> Trained:
    """Run a plan in a new folder as `llmperf run` does; KeyboardInterrupt if it was interrupted."""
    began = time.monotonic()
    patient = replace(plan, stall_seconds=STALL_SECONDS, startup_seconds=STARTUP_SECONDS)
    result = run_plan(patient, run, plugins, sample_seconds=SAMPLE_SECONDS)
    if result.status == "aborted":  # by Ctrl-C, which is meant for all checks
        raise KeyboardInterrupt
    steps: dict[int, list[StepRecord]] = {}
    for path in filenames.record_files(run):
        for record in read_steps(path):
            steps.setdefault(record.step, []).append(record)
    return Trained(plan=patient, result=result, steps=dict(sorted(steps.items())), seconds=time.monotonic() - began)


def leave_with_an_error(plan: Plan, run: Path, late: LateTokens | None) -> Ends:
    """Build a plan's trainer on each rank, take its steps and leave; ContractError if a rank does not end well."""
    create_run_folder(run, plan)
    lead = wall_clock_lead()
    port = free_port()
    started: list[Child] = []
    deadline = time.monotonic() + STARTUP_SECONDS
    try:
        for rank in range(plan.layout.world_size):
            words = ["--run-dir", str(run), "--out", str(run / f"end-{rank}.json"), *late_words(late)]
            env = rank_environment(run, plan, 0, rank, "127.0.0.1", port)
            started.append(Child("rank", words, filenames.log_path(run, rank), env))
        for child in started:
            child.wait(deadline)
    finally:
        for child in started:
            child.kill()
    ranks = tuple(_end(run / f"end-{rank}.json") for rank in range(len(started)))
    return Ends(ranks=ranks, clock_was_set=abs(wall_clock_lead() - lead) > SET_SECONDS)


def late_words(late: LateTokens | None) -> list[str]:
    """The option that gives a program of the kit its tokens."""
    return [] if late is None else ["--late-tokens", str(late.seed), str(late.first_step)]


def wall_clock_lead() -> float:
    """Seconds by which the wall clock is ahead of the monotonic one: another value later means that it was set."""
    readings = [(time.monotonic(), time.time(), time.monotonic()) for _ in range(9)]
    before, wall, after = min(readings, key=lambda reading: reading[2] - reading[0])  # with no pause in between
    return wall - (before + after) / 2


def expected(plan: Plan, run: Path, steps: int, late: LateTokens | None) -> Trajectory:
    """Reference trajectory of the first steps of a plan, in a process with one thread; Skip if none covers it."""
    run.mkdir()
    json_files.save(run / filenames.PLAN, plan)
    words = ["--plan", str(run / filenames.PLAN), "--steps", str(steps), *late_words(late)]
    found = observe("expected", words, Trajectory, seconds=STARTUP_SECONDS, env=ONE_THREAD)
    if found.unknown is not None:
        raise Skip(found.unknown)
    return found


def _end(path: Path) -> RankEnd:
    if not os.path.exists(path):
        raise ContractError("a rank ended without a word")
    return json_files.decode(json_files.read_bytes(path, MAX_OBSERVATION_BYTES), RankEnd, path.name)
