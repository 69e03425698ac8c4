"""Profiles: what a framework's profiler shows of a few steps of one rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from llmperf.types.frozen import dataclass
from llmperf.types.tracing import OperationKind
from llmperf.types.units import Count, NonNegative, Positive

PartKind = Literal["products", "attention", "collectives", "memory", "host gaps", "other"]
"""Kinds of work in a step. `memory`: operations that are bound by the memory's bandwidth: norms, activations, copies,
the update; `other`: what the rest does not add up to, below 0 where operations go on at the same time."""

COMMUNICATION = "communication, not beside computation"
IDLE = "neither operations nor communication"
REMAINDER = "operations at the same time, and what the profiler did not see"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledOperation:
    """Equal operations of a step."""

    name: str
    """Name in the framework, such as `aten.mm`."""
    kind: OperationKind
    """Kind of the operations."""
    seconds: NonNegative
    """Time in a step: on the device, or of a CPU without the operations that they call."""
    calls: NonNegative
    """Calls in a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProfile:
    """A few steps of one rank under a profiler, which slows them down; figures are means of a step."""

    rank: Count
    """The rank."""
    steps: Positive
    """Profiled steps, after warm-up."""
    profiler: str
    """The profiler, such as `torch.profiler`."""
    clock: Literal["device", "host"]
    """Origin of the times of operations: kernels on the device, or calls on a CPU."""
    step_seconds: NonNegative
    """Wall time."""
    operations: tuple[ProfiledOperation, ...]
    """All operations, longest first."""
    communication_seconds: NonNegative
    """Time with any communication."""
    overlapped_seconds: NonNegative
    """Part of it in which operations went on too."""
    idle_seconds: NonNegative
    """Time with neither operations nor communication: the device waits for the host, or the host computes."""
    trace: str | None = None
    """Name of the Chrome trace in the run folder; None without one."""
    first_step: Positive | None = None
    """Number of the first profiled step, by the core; None if unknown."""
    notes: tuple[str, ...] = ()
    """Notes for readers."""

    @property
    def seconds_by_kind(self) -> dict[OperationKind, float]:
        """Seconds of a step by kind, longest first."""
        sums: dict[OperationKind, float] = {}
        for operation in self.operations:
            sums[operation.kind] = sums.get(operation.kind, 0.0) + operation.seconds
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

    @property
    def parts(self) -> dict[tuple[str, PartKind], float]:
        """Seconds of a step by operation and kind, which add up to the step."""
        seconds: dict[tuple[str, PartKind], float] = {}
        for operation in self.operations:
            kind: PartKind = "products" if operation.kind == "matmul" else "memory"
            key = operation.name, "attention" if operation.kind == "attention" else kind
            seconds[key] = seconds.get(key, 0.0) + operation.seconds
        seconds[COMMUNICATION, "collectives"] = max(0.0, self.communication_seconds - self.overlapped_seconds)
        seconds[IDLE, "host gaps"] = self.idle_seconds
        seconds[REMAINDER, "other"] = self.step_seconds - sum(seconds.values())
        return seconds

    @staticmethod
    def mean(profiles: Sequence[StepProfile]) -> StepProfile:
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
