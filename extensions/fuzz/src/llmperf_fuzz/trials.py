"""Cases that are planned, trained on both sides by forks of one program for each framework, and compared."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import llmperf
from llmperf.errors import UserError
from llmperf.launching import create_run_folder, end_with_parent, python_module
from llmperf.types import FailureRecord, PhaseRecord, Plan, StepRecord

from llmperf_fuzz.cases import DrawnCase, case_of, templates
from llmperf_fuzz.drawing import Settings, Space

LIMITS = {"fp32": (2e-6, 5e-5), "bf16": (3e-3, 5e-2)}
"""Relative difference of losses, and of gradient norms, in step 1: sums of some thousand numbers in another order. The
relative spacing of float32 numbers is 6e-8, of bf16 numbers 4e-3."""
GROWTH = 4.0
"""Factor of the limits from one step to the next: training amplifies a difference of the weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """A plan that was trained; without an error, `losses` and `norms` have each step."""

    losses: tuple[float | None, ...] = ()
    """Mean over all ranks' tokens, in nats; NaN if it is not finite, None if no rank has it."""
    norms: tuple[float | None, ...] = ()
    """Gradient norm on a rank that has one; NaN where ranks disagree."""
    error: str = ""
    """The reason why a rank failed, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A case that was compared."""

    summary: str = ""
    """The figure that differs, or the side that failed and its exception; empty if the sides agree."""
    step: int | None = None
    """The first step that differs."""
    share: float = 0.0
    """Largest difference up to that step, as a share of its limit."""
    layout: Trained
    alone: Trained

    def like(self, other: object) -> bool:
        """Check whether another outcome shows the same fault: any figure differs, or the same exception ends it."""
        if not isinstance(other, Outcome) or not self.summary or not other.summary:
            return False
        return self.summary == other.summary or None not in (self.step, other.step)


def compared(layout: Trained, alone: Trained, precision: str = "fp32") -> Outcome:
    """The outcome of the two sides of a case."""
    for side, trained in (("one rank", alone), ("the layout", layout)):
        if trained.error:
            summary = f"{side} fails with {trained.error.partition(':')[0]}"
            return Outcome(summary=summary, layout=layout, alone=alone)
    worst = 0.0
    for step, figures in enumerate(zip(layout.losses, alone.losses, layout.norms, alone.norms, strict=False)):
        for place, name in enumerate(("loss", "gradient norm")):
            value, expected = figures[2 * place : 2 * place + 2]
            if value is None or expected is None:
                continue
            apart = abs(value - expected) / max(abs(expected), 1e-6)
            worst = max(worst, apart / (LIMITS[precision][place] * GROWTH**step) if math.isfinite(apart) else math.inf)
            if worst > 1:
                summary = f"the {name} of step {step + 1} differs"
                return Outcome(summary=summary, step=step + 1, share=worst, layout=layout, alone=alone)
    return Outcome(share=worst, layout=layout, alone=alone)


NORMS_APART = 1e-3
"""Relative difference of the gradient norms that ranks report, from which they disagree."""


class Ranks:
    """The programs and their ranks."""

    program: ClassVar = python_module("llmperf_fuzz.rank_server")

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
                [*self.program, *arguments],
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


class Trials:
    """Cases of a framework on several ranks, and of a reference on one; a context manager."""

    def __init__(
        self, framework: str, reference: str, devices: int, fixed: Mapping[str, Any], vendor: str | None = None
    ) -> None:
        """`fixed` are settings that each case has; UserError for a model that does not exist."""
        self._frameworks, self._vendor, self._ranks = (framework, reference), vendor, Ranks()
        self._models = templates()
        if (named := fixed.get("model")) is not None:
            self._models = {named: llmperf.whole_library_for("models", named).model(named, "--set model")}
        mixtures = {name: model.mixture is not None for name, model in self._models.items()}
        self.space = Space.of(mixtures, devices, fixed)
        self.known = dict[str, Trained]()
        """Figures on one rank by case, which several layouts share."""
        stages: tuple[Literal[0, 1, 2, 3], ...] = (0, 1, 2, 3)
        self._stage = stages[0]
        simplest = self.case({path: values[0] for path, values in self.space.values.items()}, 0)
        for stage in stages:  # DeepSpeed's pipelines refuse 0
            tuning = replace(simplest.alone.tuning, sharding_stage=stage)
            problems = llmperf.GivenRun(replace(simplest.alone, tuning=tuning), simplest.model, vendor).problems
            if all(problem.where != "tuning.sharding_stage" for problem in problems):
                self._stage = stage
                break

    def __enter__(self) -> Trials:
        return self

    def __exit__(self, *_: object) -> None:
        self._ranks.close()

    def case(self, settings: Settings, seed: int) -> DrawnCase:
        """The case of these settings; UserError if the facts of its model contradict one another."""
        return case_of(settings, self._models[settings["model"]], *self._frameworks, seed, self._stage)

    def compare(self, settings: Settings, seed: int, fresh: bool = False) -> Outcome | tuple[str, ...]:
        """As `search.Compare` says; UserError if the framework or the vendor cannot be used at all."""
        try:
            case = self.case(settings, seed)
        except UserError as error:  # fuzzed: KEY: expected ...
            return (f"model.{str(error).split(': ')[1]}",)
        plans = []
        for one in (case.layout, case.alone):
            run = llmperf.GivenRun(one, case.model, self._vendor)
            for problem in run.problems:
                if problem.code in ("framework_unusable", "vendor_unusable"):
                    raise UserError(f"{problem.where}: {problem.message}")
            if run.plan is None or run.problems:
                return tuple(problem.where for problem in run.problems)
            plans.append(run.plan)
        key = repr((case.alone, case.model, fresh))
        trained = self._ranks.train(*plans[: 1 if key in self.known else 2], fresh=fresh)
        self.known.setdefault(key, trained[-1])
        return compared(trained[0], self.known[key], case.layout.contract.precision)
