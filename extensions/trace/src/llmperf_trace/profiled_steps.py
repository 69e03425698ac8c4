"""A few steps, on one rank under the profiler, for `llmperf profile` and `run --trace`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from llmperf.plugins.faults import described, of_kind
from llmperf.plugins.loading import Plugins
from llmperf.runfolder import filenames
from llmperf.runfolder.recorder import Recorder
from llmperf.types.devices import Device
from llmperf.types.plan import Plan
from llmperf.types.records import ProfileRecord, Trainer
from llmperf.types.tracing import StepProfile
from llmperf.types.units import Count, Positive

HOOK = "llmperf_profile_steps"
TASK = "profile.json"
"""Name of the task among the files of a run folder."""
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


def profile_steps(
    run: Path,
    rank: int,
    plan: Plan,
    plugins: Plugins,
    device: Device,
    trainer: Trainer,
    recorder: Recorder,
    task: ProfileTask,
    trained: int = 0,
    alive: Callable[[], object] = lambda: None,
) -> None:
    """Train without measuring, after `trained` steps; this rank's profiles are recorded if it is the profiled one.

    Steps that follow each other have one profile and one Chrome trace.
    """
    ranges: list[tuple[int, int]] = []
    for step in task.steps:
        if ranges and ranges[-1][1] + 1 == step:
            ranges[-1] = ranges[-1][0], step
        else:
            ranges.append((step, step))
    for first, last in ranges:
        for _ in range(trained + 1, first):
            trainer.train_step()
            device.synchronize()
            alive()
        trained = last
        device.synchronize()
        steps = last + 1 - first
        if rank != task.rank:
            for _ in range(steps):
                trainer.train_step()
            device.synchronize()
            continue
        trace = filenames.trace_path(run, rank, None if len(ranges) == 1 else (first, last)) if task.trace else None
        if trace is not None:
            trace.parent.mkdir(exist_ok=True)
        profile = plugins.ask(HOOK, plan=plan, device=device, step=trainer.train_step, steps=steps, trace=trace)
        profile = of_kind(plugins.owner(HOOK), HOOK, profile, StepProfile)
        kept = None if trace is None or not trace.is_file() else trace.relative_to(run).as_posix()
        recorder.write(ProfileRecord(rank=rank, profile=replace(profile, trace=kept, first_step=first)))


def trace_further_steps(profile: Callable[..., None], plan: Plan, enter: Callable[[], object]) -> None:
    """The profiles of steps after those of a run, which has recorded all of its figures: an error costs no result.

    All ranks train the steps. `profile` is `profile_steps` for this rank. `enter` records the phase again, which shows
    that the rank has not hung.
    """
    recorded = time.monotonic()

    def alive() -> None:
        nonlocal recorded
        if time.monotonic() - recorded > SIGN_OF_LIFE_SECONDS:
            enter()
            recorded = time.monotonic()

    try:
        profile(ProfileTask(steps=plan.traced_steps, rank=0), plan.steps, alive)
    except Exception as error:  # such as data that are used up, on all ranks alike
        print(f"llmperf: no trace: {described(error)}", file=sys.stderr)
