"""One training step of a rank, traced without its hardware (`llmperf_trace_step`) or seen by a profiler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from llmperf.types.frozen import dataclass
from llmperf.types.units import Count, NonNegative, Positive

OperationKind = Literal[
    "matmul", "attention", "norm", "rope", "activation", "loss", "embedding", "optimizer", "copy", "elementwise"
]
"""Kinds of operation. `copy`: casts, transposes and copies that compute nothing; `elementwise`: all else."""
Phase = Literal["forward", "backward", "update"]
"""Part of a step. Recomputed activations belong to `backward`; clipping and the optimiser to `update`."""
MemoryKind = Literal[
    "parameters", "gradients", "optimizer", "activations", "logits", "communication", "temporaries", "other"
]
"""Kinds of memory. `optimizer`: its states, float32 master weights included."""
Collective = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "send_receive"]
"""A pattern of communication. `send_receive` is one transfer between two ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedOperation:
    """Equal operations of one rank: one kernel each, or as many as `kernels` says."""

    name: str
    """Name in the framework, such as `aten.mm`."""
    kind: OperationKind
    """Kind of the operation."""
    phase: Phase
    """Part of the step."""
    dtype: str
    """Dtype of its inputs: `bf16`, `fp16`, `fp32`, or `tf32` where float32 products may be computed in it."""
    flops: NonNegative
    """FLOPs of one operation, as computed: the masked half of attention is left out where a kernel leaves it out."""
    bytes: Count
    """Read and written by one operation, each tensor once."""
    shape: tuple[Count, ...] = ()
    """Shape of a matrix product: batch, rows, columns, inner size; else empty."""
    kernels: Count = 1
    """Kernels that one operation launches."""
    per_micro_batch: Count = 0
    """Times in each micro batch."""
    per_step: Count = 0
    """Times in a step apart from its micro batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedCollective:
    """Equal communications of one rank."""

    collective: Collective
    """The pattern."""
    bytes: Count
    """Size of the whole tensor on one rank: summed, gathered, before it is scattered, or sent."""
    ranks: tuple[Count, ...]
    """All ranks that take part, in order; for `send_receive` this rank and the other."""
    phase: Phase
    """Part of the step."""
    overlaps: bool
    """Computation goes on until its result is needed."""
    per_micro_batch: Count = 0
    """Times in each micro batch."""
    per_step: Count = 0
    """Times in a step apart from its micro batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostWait:
    """A place where the host reads a value from the device, and waits for it."""

    where: str
    """`file.py:line`, from the name of the package on."""
    operation: str
    """The reading operation, such as `Tensor.item`."""
    per_step: NonNegative
    """Times in a step of the case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedMemory:
    """The memory of one rank's tensors, in blocks of 512 bytes as the allocator hands them out."""

    peak_bytes: Count
    """The most at one moment of a step that is not the first."""
    at_peak: Mapping[MemoryKind, Count]
    """The same by kind; adds up to `peak_bytes`."""
    phase: Phase
    """Phase of the step with the peak."""
    operation: str
    """The operation that reached it, with the shape of its result."""
    between_steps: Mapping[MemoryKind, Count]
    """Held between two steps, by kind."""

    def largest_parts(self) -> str:
        """The parts of the peak in GiB as text, largest first; none below a hundredth of it."""
        parts = sorted(self.at_peak.items(), key=lambda part: -part[1])
        return ", ".join(f"{kind} {size / 2**30:.2f}" for kind, size in parts if size >= 0.01 * self.peak_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTrace:
    """A step of one rank at full size: what is computed, communicated and held."""

    rank: Count
    """The rank."""
    method: Literal["fake tensors", "analytic"]
    """`fake tensors`: the trainer's own code ran on tensors without data; `analytic`: formulas."""
    traced_micro_batches: Count
    """Micro batches that ran; others are like them."""
    operations: tuple[TracedOperation, ...]
    """Operations that the rank computes."""
    collectives: tuple[TracedCollective, ...]
    """Collectives that the rank takes part in."""
    host_waits: tuple[HostWait, ...] | None
    """Empty if the host never waits; None if they are not known."""
    memory: TracedMemory
    """Memory that the rank holds."""
    parameters: Positive | None = None
    """Parameters of the whole model, as the trainer counts them."""
    stand_ins: tuple[str, ...] = ()
    """Replacements that let the trainer run without the device, one line each."""
    notes: tuple[str, ...] = field(default=())
    """Notes for readers of the estimate."""


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
