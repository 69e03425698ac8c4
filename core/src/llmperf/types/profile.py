"""Profiles: what a framework's profiler shows of a few steps of one rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from llmperf.types.tracing import OperationKind
from llmperf.types.units import Count, NonNegative, Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledOperation:
    """Equal operations of a step."""

    name: str
    """As the framework calls them, such as `aten.mm`."""
    kind: OperationKind
    """What they compute."""
    seconds: NonNegative
    """In a step: on the device, or of a CPU without the operations that they call."""
    calls: NonNegative
    """In a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProfile:
    """A few steps of one rank under a profiler, which slows them down; figures are means of a step."""

    rank: Count
    """Of which rank."""
    steps: Positive
    """Profiled steps, after warm-up."""
    profiler: str
    """What observed them, such as `torch.profiler`."""
    clock: Literal["device", "host"]
    """Whether times of operations are those of kernels on the device, or of calls on a CPU."""
    step_seconds: NonNegative
    """Wall time."""
    operations: tuple[ProfiledOperation, ...]
    """All operations, longest first."""
    communication_seconds: NonNegative
    """In which any communication went on."""
    overlapped_seconds: NonNegative
    """Part of it in which operations went on too."""
    idle_seconds: NonNegative
    """In which neither operations nor communication went on: the device waits for the host, or the host computes."""
    trace: str | None = None
    """Name of the Chrome trace in the run folder; None without one."""
    notes: tuple[str, ...] = ()
    """What a reader should know."""

    @property
    def seconds_by_kind(self) -> dict[OperationKind, float]:
        """Seconds of a step by kind, longest first."""
        sums: dict[OperationKind, float] = {}
        for operation in self.operations:
            sums[operation.kind] = sums.get(operation.kind, 0.0) + operation.seconds
        return dict(sorted(sums.items(), key=lambda item: -item[1]))
