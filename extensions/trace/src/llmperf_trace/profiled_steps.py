"""A few steps, on one rank under the profiler: the tasks of ranks of `llmperf profile` and `run --trace`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llmperf.launching import check_parameters
from llmperf.types import ProfileRecord, RankAtTask, StepProfile
from llmperf.types.units import Count, Positive

HOOK = "llmperf_profile_steps"
BUILD = "llmperf_build_trainer"
SIGN_OF_LIFE_SECONDS = 1.0
"""Shortest interval in which further steps record that they continue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileTask:
    """Task of the ranks for `llmperf profile` in place of a run, for `run --trace` after it."""

    steps: tuple[Positive, ...]
    """Numbers of the profiled steps, in order; those between are trained without the profiler."""
    rank: Count
    """The rank that is profiled."""
    trace: bool = True
    """A Chrome trace is written."""


def profile(rank: RankAtTask) -> None:
    """Train in place of a run, for `llmperf profile`."""
    with rank.ask(BUILD, plan=rank.plan, device=rank.device) as trainer:
        check_parameters(trainer.parameter_count, rank.plan, f"{rank.who(BUILD)}: the trainer")
        rank.enter("warming up")
        profile_steps(rank, trainer, rank.task(ProfileTask))


def trace_further_steps(rank: RankAtTask) -> None:
    """Train the steps after those of a run, all ranks alike. The phase is recorded again: the rank has not hung."""
    recorded = time.monotonic()

    def alive() -> None:
        nonlocal recorded
        if time.monotonic() - recorded > SIGN_OF_LIFE_SECONDS:
            rank.enter("evaluating")
            recorded = time.monotonic()

    profile_steps(rank, rank.trainer, ProfileTask(steps=rank.plan.traced_steps, rank=0), rank.plan.steps, alive)


def profile_steps(
    rank: RankAtTask, trainer: Any, task: ProfileTask, trained: int = 0, alive: Callable[[], object] = lambda: None
) -> None:
    """Train without measuring, after `trained` steps; successive steps have one profile, of the profiled rank."""
    ranges: list[tuple[int, int]] = []
    for step in task.steps:
        follows = bool(ranges) and ranges[-1][1] + 1 == step
        ranges.append((ranges.pop()[0] if follows else step, step))
    for first, last in ranges:
        for _ in range(trained + 1, first):
            trainer.train_step()
            rank.device.synchronize()
            alive()
        trained = last
        rank.device.synchronize()
        steps = last + 1 - first
        if rank.rank != task.rank:
            for _ in range(steps):
                trainer.train_step()
            rank.device.synchronize()
            continue
        trace = trace_path(rank.run, rank.rank, None if len(ranges) == 1 else (first, last)) if task.trace else None
        if trace is not None:
            trace.parent.mkdir(exist_ok=True)
        wanted = {"step": trainer.train_step, "steps": steps, "trace": trace}
        (found,) = rank.answers(HOOK, (StepProfile,), plan=rank.plan, device=rank.device, **wanted)
        kept = None if trace is None or not trace.is_file() else trace.relative_to(rank.run).as_posix()
        rank.record(ProfileRecord(rank=rank.rank, profile=replace(found, trace=kept, first_step=first)))


def trace_path(run: Path, rank: int, steps: tuple[int, int] | None = None) -> Path:
    """The Chrome trace of one rank, of one of several ranges of steps; no figure of the result is made from it."""
    part = "" if steps is None else "-step-{}-{}".format(*steps)
    return run / "traces" / f"rank-{rank:05d}{part}.json.gz"
