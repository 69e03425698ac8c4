"""What a rank does for `llmperf profile` and `run --trace`: a few steps, on one rank under the profiler."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from llmperf.plugins.faults import described, of_kind
from llmperf.plugins.loading import Plugins
from llmperf.runfolder import filenames
from llmperf.runfolder.recorder import Recorder
from llmperf.types.devices import Device
from llmperf.types.plan import Plan
from llmperf.types.profile import StepProfile
from llmperf.types.records import ProfileRecord, Trainer
from llmperf.types.units import Count, Positive

HOOK = "llmperf_profile_steps"
TASK = "profile.json"
"""Name of the task among the files of a run folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileTask:
    """What the ranks do, for `llmperf profile` in place of a run, for `run --trace` after it."""

    steps: Positive
    """Profiled steps."""
    warmup_steps: Count
    """Steps before them."""
    rank: Count
    """The rank that is profiled."""
    trace: bool = True
    """Whether a Chrome trace is written."""


def profile_steps(
    run: Path,
    rank: int,
    plan: Plan,
    plugins: Plugins,
    device: Device,
    trainer: Trainer,
    recorder: Recorder,
    task: ProfileTask,
) -> None:
    """Train without measuring; the profile of this rank is recorded if it is the one that is profiled."""
    for _ in range(task.warmup_steps):
        trainer.train_step()
    device.synchronize()
    if rank != task.rank:
        for _ in range(task.steps):
            trainer.train_step()
        device.synchronize()
        return
    trace = filenames.trace_path(run, rank) if task.trace else None
    if trace is not None:
        trace.parent.mkdir(exist_ok=True)
    profile = plugins.ask(HOOK, plan=plan, device=device, step=trainer.train_step, steps=task.steps, trace=trace)
    profile = of_kind(plugins.owner(HOOK), HOOK, profile, StepProfile)
    kept = None if trace is None or not trace.is_file() else trace.relative_to(run).as_posix()
    recorder.write(ProfileRecord(rank=rank, profile=replace(profile, trace=kept)))


def trace_further_steps(
    run: Path, rank: int, plan: Plan, plugins: Plugins, device: Device, trainer: Trainer, recorder: Recorder
) -> None:
    """The profile of the steps after those of a run, which has recorded all of its figures: an error costs no result.

    All ranks train the steps; one untraced step comes first, in which the profiler's own start is not yet at work.
    """
    task = ProfileTask(steps=plan.trace_steps, warmup_steps=1, rank=0)
    try:
        profile_steps(run, rank, plan, plugins, device, trainer, recorder, task)
    except Exception as error:  # such as data that are used up, on all ranks alike
        print(f"llmperf: no trace: {described(error)}", file=sys.stderr)
