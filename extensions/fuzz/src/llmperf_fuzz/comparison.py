"""Comparison of a case on several ranks with the same contract on one, within what its precision explains."""

from __future__ import annotations

import math
from dataclasses import dataclass

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
