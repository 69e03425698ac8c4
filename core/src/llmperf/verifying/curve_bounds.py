"""How far losses and gradient norms of two honest runs of one contract may be apart, and whether two runs are.

docs/trust.md has the measurements that the bounds come from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from llmperf.types.precision import Precision
from llmperf.types.result import LossPoint

GROWTH = 1.25
"""Factor by which bounds grow from step to step: differences by rounding grow as training goes on, and faster at high
learning rates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveBounds:
    """Largest differences of a step, which grow with the steps before it."""

    loss: float
    """Nats per token, at step 1."""
    norm: float
    """Relative, at step 1."""

    def of_loss(self, step: int) -> float:
        """Nats per token, at a step."""
        return self.loss * GROWTH ** (step - 1)

    def of_norm(self, step: int) -> float:
        """Relative, at a step."""
        return self.norm * GROWTH ** (step - 1)


FP32 = CurveBounds(loss=2e-5, norm=1e-3)
"""Both runs in fp32."""
REDUCED = CurveBounds(loss=2e-3, norm=0.02)
"""At least one run computes products in 16 bits or tf32."""
FP8 = CurveBounds(loss=5e-3, norm=0.05)
"""At least one run computes products in fp8."""


def bounds_of(*recipes: Precision) -> CurveBounds:
    """The bounds for runs by these recipes."""
    if set(recipes) == {"fp32"}:
        return FP32
    return FP8 if any(recipe.startswith("fp8") for recipe in recipes) else REDUCED


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveDifference:
    """Two curves, step by step, with the step that comes nearest to its bound or exceeds it most."""

    what: Literal["loss", "gradient norm"]
    """The curves of what."""
    steps: int
    """Steps that both have."""
    step: int
    """The worst step."""
    submitted: float
    """At that step."""
    here: float
    """At that step."""
    difference: float
    """At that step: in nats per token of a loss, relative of a norm."""
    bound: float
    """At that step."""

    @property
    def within(self) -> bool:
        """Whether all steps are within their bounds."""
        return self.difference <= self.bound

    @property
    def text(self) -> str:
        """Such as `loss within 4.8e-07 (bound 1.4e-05, step 5)`."""
        where = f"bound {self.bound:.2g}, step {self.step}"
        unit = " nats per token" if self.what == "loss" else ""
        if self.within:
            return f"{self.what} differs by at most {self.difference:.1e}{unit} ({where})"
        values = f"submitted {self.submitted:.6f}, {self.here:.6f} here"
        return f"{self.what} differs by {self.difference:.1e}{unit} ({where}): {values}"


def losses(submitted: Sequence[LossPoint], here: Sequence[LossPoint], bounds: CurveBounds) -> CurveDifference | None:
    """The losses of two runs; None if no step has both."""
    ours, theirs = ({point.step: point.loss for point in points} for points in (here, submitted))
    pairs = _pairs(theirs, ours)
    found = {step: (abs(there - value), bounds.of_loss(step)) for step, (there, value) in pairs.items()}
    return _worst("loss", pairs, found)


def norms(submitted: Sequence[LossPoint], here: Sequence[LossPoint], bounds: CurveBounds) -> CurveDifference | None:
    """The gradient norms of two runs; None if no step has both."""
    ours, theirs = ({point.step: point.grad_norm for point in points} for points in (here, submitted))
    pairs = _pairs(theirs, ours)
    found = {
        step: (abs(there - value) / max(abs(value), 1e-30), bounds.of_norm(step))
        for step, (there, value) in pairs.items()
    }
    return _worst("gradient norm", pairs, found)


def _pairs(submitted: Mapping[int, float | None], here: Mapping[int, float | None]) -> dict[int, tuple[float, float]]:
    pairs = {}
    for step in sorted(submitted.keys() & here.keys()):
        there, value = submitted[step], here[step]
        if there is not None and value is not None:
            pairs[step] = (there, value)
    return pairs


def _worst(
    what: Literal["loss", "gradient norm"],
    pairs: Mapping[int, tuple[float, float]],
    found: Mapping[int, tuple[float, float]],
) -> CurveDifference | None:
    if not found:
        return None
    step = max(found, key=lambda step: found[step][0] / found[step][1])
    (difference, bound), (submitted, here) = found[step], pairs[step]
    return CurveDifference(
        what=what, steps=len(found), step=step, submitted=submitted, here=here, difference=difference, bound=bound
    )
