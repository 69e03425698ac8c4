"""Losses that a plan's weights, tokens and optimiser give, computed by a reference on one thread."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from llmperf.files import json_files
from llmperf.types import Plan, RunSpec

from llmperf_testing import reference
from llmperf_testing.check import Skip
from llmperf_testing.late_tokens import LateTokens
from llmperf_testing.observations import Trajectory


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the trajectory to `--out`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--late-tokens", type=int, nargs=2, metavar=("SEED", "STEP"))
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    late = LateTokens(seed=given.late_tokens[0], first_step=given.late_tokens[1]) if given.late_tokens else None
    json_files.save(given.out, expected(json_files.load(given.plan, Plan), given.steps, late))


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


if __name__ == "__main__":
    main()
