"""Losses that a plan's weights, tokens and optimiser give, computed by a reference on one thread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from llmperf.files import json_files
from llmperf.types import Plan, RunSpec

from llmperf_testing import reference
from llmperf_testing.check import Skip
from llmperf_testing.drawn_case import LateTokens
from llmperf_testing.observations import Trajectory


def seen(plan: str, steps: int, late: dict[str, int] | None) -> Trajectory:
    """The first steps of the plan in a file."""
    return expected(json_files.load(Path(plan), Plan), steps, LateTokens(**late) if late else None)


def expected(plan: Plan, steps: int, late: LateTokens | None = None) -> Trajectory:
    """The first steps of a plan, with the kit's own tokens from a step on; a reason if no reference knows them."""
    try:
        trained = reference_for(plan.spec)
    except Skip as reason:
        return Trajectory(unknown=str(reason))
    return trained(plan, steps, late)


def reference_for(spec: RunSpec) -> Callable[[Plan, int, LateTokens | None], Trajectory]:
    """Function that computes the losses of a spec's model; Skip if there is none."""
    other = "--reference FRAMEWORK compares with another framework"
    if (packing := spec.contract.packing) != "packed":
        raise Skip(f"the kit knows the losses of packed sequences only, not of {packing} ones; {other}")
    if reference.covers(spec):
        return reference.trajectory
    try:
        from llmperf_testing import transformers_reference
    except ImportError as error:
        missing = f"the losses of {spec.model.name} need torch, transformers 5 and llmperf-huggingface"
        raise Skip(f"{missing} in this environment ({error}); {other}") from None
    if (reason := transformers_reference.uncovered(spec)) is not None:
        raise Skip(f"{reason}; {other}")
    return transformers_reference.trajectory
