"""Training of plans by forks of one program for each framework, and the losses and gradient norms of each step."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import llmperf
from llmperf.launching import create_run_folder, end_with_parent
from llmperf.types import FailureRecord, PhaseRecord, Plan, StepRecord

from llmperf_fuzz.comparison import Trained

NORMS_APART = 1e-3
"""Relative difference of the gradient norms that ranks report, from which they disagree."""
PYTHON = [sys.executable, *(["-P"] if sys.version_info >= (3, 11) else [])]


class Ranks:
    """The programs and their ranks."""

    program: ClassVar = ["-m", "llmperf_fuzz.rank_server"]

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="llmperf-fuzz-")
        self._programs = dict[tuple[str, bool], "subprocess.Popen[str]"]()

    def close(self) -> None:
        """End them."""
        for program in self._programs.values():
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            program.wait()
        self._folder.cleanup()

    def train(self, *plans: Plan, fresh: bool = False) -> list[Trained]:
        """Train plans at the same time, in forks, or in `fresh` processes, as devices other than CPUs need."""
        asked = dict[tuple[str, bool], list[str]]()
        runs = [Path(tempfile.mkdtemp(dir=self._folder.name)) / "run" for _ in plans]
        for run, plan in zip(runs, plans, strict=True):
            create_run_folder(run, plan)
            asked.setdefault((plan.spec.tuning.framework, plan.probe.on_cpu and not fresh), []).append(str(run))
        for key, named in asked.items():
            if key not in self._programs or self._programs[key].poll() is not None:
                self._programs[key] = self._started(named[:1] if key[1] else [])
            stdin = self._programs[key].stdin
            assert stdin is not None
            with suppress(BrokenPipeError):
                print(json.dumps(named), file=stdin, flush=True)
        for key in asked:
            stdout = self._programs[key].stdout
            assert stdout is not None
            if not stdout.readline():  # it has crashed
                self._programs[key].wait()
        return [_read(run, plan.layout.world_size or 1) for run, plan in zip(runs, plans, strict=True)]

    def _started(self, arguments: list[str]) -> subprocess.Popen[str]:
        with (Path(self._folder.name) / "program.log").open("ab") as log:
            return subprocess.Popen(
                [*PYTHON, *self.program, *arguments],
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # an interruption ends it when the finding has been reported
                preexec_fn=end_with_parent(signal.SIGKILL),
            )


def _read(run: Path, ranks: int) -> Trained:
    """Figures of all ranks together, or the error of the rank that failed first."""
    records = [record for _, of_rank in llmperf.recorded(run) for record in of_rank]
    if failures := [record for record in records if isinstance(record, FailureRecord)]:
        first = min(failures, key=lambda failure: failure.at)
        return Trained(error=f"{first.exception.rpartition('.')[2]}: {' '.join(first.message.split())}")
    if sum(isinstance(record, PhaseRecord) and record.phase == "done" for record in records) < ranks:
        return Trained(error="TimeoutError: the ranks hung, or one crashed")
    losses, norms, steps = list[float | None](), list[float | None](), defaultdict[int, list[StepRecord]](list)
    for record in records:
        if isinstance(record, StepRecord):
            steps[record.step].append(record)
    for _, step in sorted(steps.items()):
        known = [(one.loss if one.loss is not None else math.nan, one.tokens) for one in step if one.tokens]
        losses.append(sum(loss * tokens for loss, tokens in known) / sum(tokens for _, tokens in known))
        each = [one.grad_norm for one in step if one.grad_norm is not None]
        apart = max(each, default=0.0) - min(each, default=0.0) > NORMS_APART * max(each, default=0.0)
        norms.append(math.nan if apart else each[0] if each else None)
    return Trained(losses=tuple(losses), norms=tuple(norms))
