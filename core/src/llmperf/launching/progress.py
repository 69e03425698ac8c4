"""The progress of a run, read from its records while they grow."""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from llmperf.accounting.flops import HEADLINE, utilisation
from llmperf.errors import UserError
from llmperf.runfolder import filenames
from llmperf.runfolder.reader import RecordFile
from llmperf.types.observing import Progress, StepProgress
from llmperf.types.plan import Plan
from llmperf.types.records import MemorySample, Phase, PhaseRecord, RankRecord, StepRecord

PHASES: tuple[Phase, ...] = get_args(Phase)
RECENT_STEPS = 50
"""Steps that the pace is computed from."""
MAX_FINISHED_STEPS = 100_000
"""Finished steps that are kept until `take_steps` is called; of more, the oldest are dropped."""
MAX_OPEN_STEPS = 20_000
"""Steps that some ranks have finished and others have not; of more, the first are dropped: nobody hears of them."""
BLOCK_BYTES = 2**16
"""Bytes that are read of one rank before the next rank is read."""


@dataclass(slots=True, eq=False)
class _Rank:
    records: RecordFile
    phase: Phase = "starting"
    steps: int = 0
    moved: float | None = None
    """Time of its last record, by the controller's monotonic clock."""


@dataclass(slots=True)
class _Step:
    number: int
    measured: bool = False
    ranks: int = 0
    tokens: int = 0
    seconds: float = 0.0
    losses: int = 0
    """Ranks with a loss."""
    loss: float = 0.0
    """Sum of their losses."""


class Follower:
    """Reads the records written since the last look; what it holds in memory depends on the number of ranks alone."""

    def __init__(self, run: Path, plan: Plan) -> None:
        layout = plan.layout
        self._plan = plan
        self._ranks = [
            _Rank(RecordFile(filenames.records_path(run, rank), BLOCK_BYTES)) for rank in range(layout.world_size)
        ]
        readings = [run / filenames.MEMORY, *(filenames.memory_path(run, node) for node in range(layout.nodes))]
        self._readings = [RecordFile(path) for path in readings]
        self._next = 0
        """The rank that is read first in the next look."""
        self._open: dict[int, _Step] = {}
        self._dropped = 0
        """The last step that was dropped."""
        self._recent: deque[_Step] = deque(maxlen=RECENT_STEPS)
        self._finished: deque[StepProgress] = deque(maxlen=MAX_FINISHED_STEPS)
        self._loss: float | None = None
        self._memory_used: dict[int, int | None] = {}
        """Most of any device, by node."""
        self._first_step_seconds = self._later_step_seconds = 0.0
        self.problem: str | None = None
        """Why a record could not be read."""

    def look(self, most_seconds: float = math.inf) -> bool:
        """Read new records for so many seconds at most; returns whether a rank has written one."""
        deadline = time.monotonic() + most_seconds
        try:
            for file in self._readings:
                for sample in file.new():
                    if isinstance(sample, MemorySample):
                        used = [device.memory_used_bytes for device in sample.devices]
                        most = max((size for size in used if size is not None), default=None)
                        self._memory_used[sample.node_rank] = most
            # read a block of each rank in turn, until no rank has more or it is time to stop
            moved = False
            turn = [*self._ranks[self._next :], *self._ranks[: self._next]]
            while turn:
                with_more = []
                for rank in turn:
                    if records := rank.records.next_block():
                        moved = True
                        now, before = time.monotonic(), rank.moved
                        rank.moved = now
                        if before is not None and any(isinstance(record, StepRecord) for record in records):
                            silent = now - before
                            if rank.steps:
                                self._later_step_seconds = max(self._later_step_seconds, silent)
                            else:
                                self._first_step_seconds = max(self._first_step_seconds, silent)
                        for record in records:
                            if isinstance(record, StepRecord):
                                rank.steps = record.step
                                self._add(record)
                            elif isinstance(record, PhaseRecord):
                                rank.phase = record.phase
                            elif isinstance(record, RankRecord):
                                rank.phase = "evaluating"
                        with_more.append(rank)
                    if time.monotonic() > deadline:
                        self._next = (self._ranks.index(rank) + 1) % len(self._ranks)
                        return moved
                turn = with_more
            return moved
        except UserError as error:
            self.problem = str(error)
            return False

    @property
    def longest_step_seconds(self) -> float:
        """The longest step on any rank; the first one, which may compile, counts only until the second."""
        return self._later_step_seconds or self._first_step_seconds

    def _add(self, record: StepRecord) -> None:
        step = self._open.get(record.step)
        if step is None:
            if record.step <= self._dropped:
                return
            step = self._open[record.step] = _Step(record.step)
            if len(self._open) > MAX_OPEN_STEPS:
                first = next(iter(self._open))
                del self._open[first]
                self._dropped = max(self._dropped, first)
        step.ranks += 1
        step.tokens += record.tokens
        step.measured = record.measured
        step.seconds = max(step.seconds, record.step_seconds)
        if record.loss is not None:
            step.losses += 1
            step.loss += record.loss
        if step.ranks == len(self._ranks):
            del self._open[record.step]
            if step.measured and self._recent and not self._recent[-1].measured:
                self._recent.clear()
            self._recent.append(step)
            self._loss = step.loss / step.losses if step.losses else None
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
        """Ranks are in the middle of their steps: after the first step, before the last."""
        begun = any(rank.steps for rank in self._ranks)
        return begun and any(rank.steps < self._plan.steps for rank in self._ranks)

    @property
    def ending(self) -> bool:
        """A rank is done: the others should follow."""
        return any(rank.phase == "done" for rank in self._ranks)

    @property
    def finished_steps(self) -> tuple[int, ...]:
        """Finished steps of each rank."""
        return tuple(rank.steps for rank in self._ranks)

    def progress(self) -> Progress:
        """The present state."""
        plan, finished = self._plan, min(self.finished_steps)
        seconds = sum(step.seconds for step in self._recent)
        tokens = sum(step.tokens for step in self._recent)
        pace = tokens / seconds / len(self._ranks) if seconds > 0 else None
        figures = utilisation(plan.flops, pace, plan.peak, plan.device_share)
        return Progress(
            phase=min((rank.phase for rank in self._ranks), key=PHASES.index),
            step=finished,
            steps=plan.steps,
            loss=self._loss,
            tokens_per_second_per_device=pace,
            mfu=next((figure.value for figure in figures if figure.convention == HEADLINE), None),
            memory_used_bytes=max((used for used in self._memory_used.values() if used is not None), default=None),
            seconds_left=seconds / len(self._recent) * (plan.steps - finished) if self._recent else None,
        )
