"""What a rank does for `llmperf profile`: warm-up steps, then a few steps, on some ranks under the profiler."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from llmperf.files import json_files
from llmperf.plugins.faults import of_kind
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
    """What the ranks of `llmperf profile` do."""

    steps: Positive
    """Profiled steps."""
    warmup_steps: Count
    """Steps before them."""
    rank: Count
    """The rank that is profiled."""
    trace: bool = True
    """Whether a Chrome trace is written."""


def trace_path(run: Path, rank: int) -> Path:
    """The Chrome trace of one rank."""
    return run / f"trace-{rank:05d}.json.gz"


def profile_steps(
    run: Path, rank: int, plan: Plan, plugins: Plugins, device: Device, trainer: Trainer, recorder: Recorder
) -> None:
    """Train without measuring; the profile of this rank is recorded if it is the one that is profiled."""
    task = json_files.load(run / filenames.FILES / TASK, ProfileTask)
    for _ in range(task.warmup_steps):
        trainer.train_step()
    device.synchronize()
    if rank != task.rank:
        for _ in range(task.steps):
            trainer.train_step()
        device.synchronize()
        return
    trace = trace_path(run, rank) if task.trace else None
    profile = plugins.ask(HOOK, plan=plan, device=device, step=trainer.train_step, steps=task.steps, trace=trace)
    recorder.write(ProfileRecord(rank=rank, profile=of_kind(plugins.owner(HOOK), HOOK, profile, StepProfile)))
