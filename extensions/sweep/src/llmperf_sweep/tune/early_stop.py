"""Ends a trial that is clearly slower than the best one so far."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from llmperf import read_bytes, write_bytes
from llmperf.types import Plan, Progress, Result, StepProgress

MAX_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """When a trial is behind: its median over `steps` measured steps is below `tokens_per_second_per_device`."""

    steps: int
    """Measured steps before a trial may be ended."""
    tokens_per_second_per_device: float
    """The least throughput."""
    reached: float | None = None
    """The median of a trial that was ended; None for one that was not."""

    def save(self, path: Path) -> None:
        """Write the limit for the process of a trial."""
        write_bytes(path, json.dumps(asdict(self)).encode())

    @classmethod
    def load(cls, path: Path) -> Limit:
        """Read the limit, and what the trial reached."""
        return cls(**json.loads(read_bytes(path, limit=MAX_BYTES)))


class EarlyStop:
    """An observer that interrupts its own run as soon as that is clearly behind."""

    name = "early stop of a search"

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._limit = Limit.load(self._path)
        self._rates: list[float] = []
        self._stopped = False

    def started(self, plan: Plan, folder: Path) -> None:
        """A repeat begins with no steps."""
        self._rates.clear()

    def progress(self, progress: Progress) -> None:
        """Not needed."""

    def steps(self, steps: Sequence[StepProgress]) -> None:
        """Compare the median of the measured steps with the limit, and interrupt the run if it is below."""
        rates = [step.tokens_per_second_per_device for step in steps if step.measured]
        self._rates += [rate for rate in rates if rate is not None]
        if self._stopped or len(self._rates) < self._limit.steps:
            return
        reached = median(self._rates)
        if reached < self._limit.tokens_per_second_per_device:
            self._stopped = True
            limit = self._limit.tokens_per_second_per_device
            Limit(steps=self._limit.steps, tokens_per_second_per_device=limit, reached=reached).save(self._path)
            os.kill(os.getpid(), signal.SIGTERM)

    def ended(self, result: Result | None, folder: Path) -> None:
        """Not needed."""
