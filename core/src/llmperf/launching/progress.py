"""The progress of a run, read from its records while they grow."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from llmperf.accounting.flops import HEADLINE, utilisation
from llmperf.errors import UserError
from llmperf.runfolder import filenames
from llmperf.runfolder.reader import RecordFile
from llmperf.types.observing import Progress, StepProgress
from llmperf.types.plan import Plan
from llmperf.types.records import FailureRecord, MemorySample, Phase, PhaseRecord, RankRecord, Record, StepRecord

PHASES: tuple[Phase, ...] = get_args(Phase)
RECENT_STEPS = 50
"""Steps that the pace is computed from."""
MAX_FINISHED_STEPS = 100_000
"""Finished steps that are kept until `take_steps` is called; of more, the oldest are dropped."""


@dataclass(slots=True)
class _Rank:
    phase: Phase = "starting"
    steps: int = 0
    failed: bool = False
    moved: float | None = None
    """Time of its last record, by the controller's monotonic clock."""


@dataclass(slots=True)
class _Step:
    number: int
    ranks: int = 0
    tokens: int = 0
    seconds: float = 0.0
    measured: bool = False
    losses: list[float] = field(default_factory=list)


class Follower:
    """Reads the records that the ranks and the sampler have written since the last look."""

    def __init__(self, run: Path, plan: Plan) -> None:
        world = plan.layout.world_size
        self._plan = plan
        self._tails = [RecordFile(filenames.records_path(run, rank)) for rank in range(world)]
        self._memory = RecordFile(run / filenames.MEMORY)
        self._ranks = [_Rank() for _ in range(world)]
        self._open: dict[int, _Step] = {}
        self._recent: deque[_Step] = deque(maxlen=RECENT_STEPS)
        self._finished: deque[StepProgress] = deque(maxlen=MAX_FINISHED_STEPS)
        self._loss: float | None = None
        self._memory_used: int | None = None
        self._first_step_seconds = self._later_step_seconds = 0.0
        self.problem: str | None = None
        """Why a record could not be read."""

    def look(self) -> bool:
        """Read new records; returns whether any rank has written one since the last look."""
        try:
            for sample in self._memory.new():
                if isinstance(sample, MemorySample):
                    used = [device.memory_used_bytes for device in sample.devices]
                    self._memory_used = max((size for size in used if size is not None), default=None)
            return any([self._take(rank, tail) for rank, tail in enumerate(self._tails)])
        except (UserError, OSError) as error:
            self.problem = str(error)
            return False

    def _take(self, rank: int, tail: RecordFile) -> bool:
        records = tail.new()
        state = self._ranks[rank]
        if records:
            self._time(state, records)
        for record in records:
            if isinstance(record, PhaseRecord):
                state.phase = record.phase
            elif isinstance(record, StepRecord):
                state.steps = record.step
                self._add(record)
            elif isinstance(record, FailureRecord):
                state.failed = True
            elif isinstance(record, RankRecord):
                state.phase = "evaluating"
        return bool(records)

    def _time(self, state: _Rank, records: Sequence[Record]) -> None:
        """Record how long a rank was silent before these records, if one of them is a step."""
        now, before = time.monotonic(), state.moved
        state.moved = now
        if before is None or not any(isinstance(record, StepRecord) for record in records):
            return
        if state.steps:
            self._later_step_seconds = max(self._later_step_seconds, now - before)
        else:
            self._first_step_seconds = max(self._first_step_seconds, now - before)

    @property
    def longest_step_seconds(self) -> float:
        """The longest time of a step on any rank so far. The first step, which may compile, counts until the second.

        It is measured by the controller's clock, since a script may report wrong times.
        """
        return self._later_step_seconds or self._first_step_seconds

    def _add(self, record: StepRecord) -> None:
        step = self._open.setdefault(record.step, _Step(record.step))
        step.ranks += 1
        step.tokens += record.tokens
        step.seconds = max(step.seconds, record.step_seconds)
        step.measured = record.measured
        if record.loss is not None:
            step.losses.append(record.loss)
        if step.ranks == len(self._ranks):
            del self._open[record.step]
            self._close(step)

    def _close(self, step: _Step) -> None:
        if step.measured and self._recent and not self._recent[-1].measured:
            self._recent.clear()
        self._recent.append(step)
        self._loss = sum(step.losses) / len(step.losses) if step.losses else None
        self._finished.append(
            StepProgress(
                step=step.number,
                measured=step.measured,
                loss=self._loss,
                step_seconds=step.seconds,
                tokens_per_second_per_device=step.tokens / step.seconds / step.ranks if step.seconds else None,
            )
        )

    def take_steps(self) -> tuple[StepProgress, ...]:
        """The steps that every rank has finished since the last call, in order."""
        steps = tuple(self._finished)
        self._finished.clear()
        return steps

    @property
    def stepping(self) -> bool:
        """Whether ranks are in the middle of their steps: after the first step, before the last."""
        begun = any(rank.steps for rank in self._ranks)
        return begun and any(rank.steps < self._plan.spec.contract.steps for rank in self._ranks)

    @property
    def ending(self) -> bool:
        """Whether a rank is done: the others should follow."""
        return any(rank.phase == "done" for rank in self._ranks)

    @property
    def finished_steps(self) -> tuple[int, ...]:
        """Finished steps of each rank."""
        return tuple(rank.steps for rank in self._ranks)

    def progress(self) -> Progress:
        """The present state."""
        steps, finished = self._plan.spec.contract.steps, min(self.finished_steps)
        seconds = sum(step.seconds for step in self._recent)
        tokens = sum(step.tokens for step in self._recent)
        pace = tokens / seconds / len(self._ranks) if seconds > 0 else None
        return Progress(
            phase=min((rank.phase for rank in self._ranks), key=PHASES.index),
            step=finished,
            steps=steps,
            loss=self._loss,
            tokens_per_second_per_device=pace,
            mfu=self._mfu(pace),
            memory_used_bytes=self._memory_used,
            seconds_left=seconds / len(self._recent) * (steps - finished) if self._recent else None,
        )

    def _mfu(self, pace: float | None) -> float | None:
        plan = self._plan
        figures = utilisation(plan.flops, pace, plan.peak, plan.device_share)
        return next((figure.value for figure in figures if figure.convention == HEADLINE), None)
