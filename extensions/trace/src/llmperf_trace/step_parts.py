"""The parts of a profiled step: by kind, by operation, and the mean of several profiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from llmperf.types import ProfiledOperation, StepProfile
from llmperf.types.tracing import OperationKind

PartKind = Literal["products", "attention", "collectives", "memory", "host gaps", "other"]
"""Kinds of work in a step. `memory`: operations that are bound by the memory's bandwidth: norms, activations, copies,
the update; `other`: what the rest does not add up to, below 0 where operations go on at the same time."""

COMMUNICATION = "communication, not beside computation"
IDLE = "neither operations nor communication"
REMAINDER = "operations at the same time, and what the profiler did not see"


def seconds_by_kind(profile: StepProfile) -> dict[OperationKind, float]:
    """Seconds of a step by kind, longest first."""
    sums: dict[OperationKind, float] = {}
    for operation in profile.operations:
        sums[operation.kind] = sums.get(operation.kind, 0.0) + operation.seconds
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


def parts_of_step(profile: StepProfile) -> dict[tuple[str, PartKind], float]:
    """Seconds of a step by operation and kind, which add up to the step."""
    seconds: dict[tuple[str, PartKind], float] = {}
    for operation in profile.operations:
        kind: PartKind = "products" if operation.kind == "matmul" else "memory"
        key = operation.name, "attention" if operation.kind == "attention" else kind
        seconds[key] = seconds.get(key, 0.0) + operation.seconds
    seconds[COMMUNICATION, "collectives"] = max(0.0, profile.communication_seconds - profile.overlapped_seconds)
    seconds[IDLE, "host gaps"] = profile.idle_seconds
    seconds[REMAINDER, "other"] = profile.step_seconds - sum(seconds.values())
    return seconds


def mean_profile(profiles: Sequence[StepProfile]) -> StepProfile:
    """Profiles of several ranges of steps of one rank as one; what is no mean of a step is the first's."""
    if len(profiles) == 1:
        return profiles[0]
    steps = sum(profile.steps for profile in profiles)

    def mean(name: str) -> float:
        return sum(float(getattr(profile, name)) * profile.steps for profile in profiles) / steps

    sums: dict[tuple[str, OperationKind], tuple[float, float]] = {}
    for profile in profiles:
        share = profile.steps / steps
        for operation in profile.operations:
            key = operation.name, operation.kind
            seconds, calls = sums.get(key, (0.0, 0.0))
            sums[key] = seconds + share * operation.seconds, calls + share * operation.calls
    operations = [
        ProfiledOperation(name=name, kind=kind, seconds=seconds, calls=calls)
        for (name, kind), (seconds, calls) in sums.items()
    ]
    return replace(
        profiles[0],
        steps=steps,
        step_seconds=mean("step_seconds"),
        operations=tuple(sorted(operations, key=lambda operation: -operation.seconds)),
        communication_seconds=mean("communication_seconds"),
        overlapped_seconds=mean("overlapped_seconds"),
        idle_seconds=mean("idle_seconds"),
        notes=tuple(dict.fromkeys(note for profile in profiles for note in profile.notes)),
    )
