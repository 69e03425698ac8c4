"""The learning rate as a pure function of the step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llmperf.types.spec import Optimizer


def learning_rate(optimizer: Optimizer, step: int, steps: int) -> float:
    """The rate of step `step` (from 1) of `steps`: linear warm-up to `lr`, then constant or a cosine to `min_lr`."""
    if step <= optimizer.warmup_steps:
        return optimizer.lr * step / optimizer.warmup_steps
    if optimizer.schedule == "constant":
        return optimizer.lr
    progress = min(1.0, (step - 1 - optimizer.warmup_steps) / max(1, steps - optimizer.warmup_steps))
    return optimizer.min_lr + (optimizer.lr - optimizer.min_lr) * (1 + math.cos(math.pi * progress)) / 2
