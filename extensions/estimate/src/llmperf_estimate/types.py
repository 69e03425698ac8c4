"""An estimate of a case on devices that need not be here: the document of `llmperf estimate --json`."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Literal

from llmperf.types.flop_counts import Mfu
from llmperf.types.frozen import dataclass
from llmperf.types.layout import Batch, Layout
from llmperf.types.rates import DeviceRates
from llmperf.types.spec import RunSpec
from llmperf.types.tracing import Collective, HostWait, MemoryKind, OperationKind, Phase
from llmperf.types.units import Count, NonNegative, Positive

Scope = Literal["node", "cluster"]
"""Where a communication goes: within one node, or between nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracerUse:
    """Resources for tracing one rank."""

    rank: Count
    """The rank."""
    seconds: NonNegative
    """Wall clock of its process."""
    peak_resident_bytes: Count | None
    """Memory of its process; None if not known."""
    problem: str | None = None
    """The reason why the analytic form was used instead; None if it was not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageMemory:
    """Memory of one rank of a pipeline stage."""

    stage: Count
    """Index of the pipeline stage."""
    rank: Count
    """The rank that was traced; other ranks of the stage are like it."""
    method: Literal["fake tensors", "analytic"]
    """How the step of this rank was traced."""
    peak_bytes: Count
    """Peak of tensors, at the moment of a step that has the most."""
    at_peak: Mapping[MemoryKind, Count]
    """The same by kind."""
    phase: Phase
    """Part of the step with the peak."""
    operation: str
    """The operation that reached it."""
    between_steps: Mapping[MemoryKind, Count]
    """Held between two steps, by kind."""
    overhead_bytes: Count | None
    """Beside tensors: context, communication library, fragmentation; None if not known."""
    total_bytes: Count
    """Peak and overhead, as far as it is known."""
    capacity_bytes: Positive | None
    """Capacity of the device, or of the rank's share of it; None if not known."""
    fits: bool | None
    """The total is at most the capacity; None without a capacity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTime:
    """Time that one rank of a pipeline stage is busy."""

    stage: Count
    """Index of the pipeline stage."""
    micro_batch_seconds: NonNegative
    """Computation and waiting for communication, for each micro batch."""
    step_seconds: NonNegative
    """The same once a step, apart from micro batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationTime:
    """Operations of one kind and phase in a step of the slowest stage."""

    kind: OperationKind
    """Kind of the operations."""
    phase: Phase
    """Part of the step."""
    seconds: NonNegative | None
    """On the device, without what communication adds; None without rates."""
    flops: NonNegative
    """Computed in a step."""
    bytes: NonNegative
    """Read and written in a step."""
    kernels: Count
    """Launched in a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Communication:
    """Equal communications in a step of the slowest stage."""

    collective: Collective
    """The pattern."""
    scope: Scope
    """`cluster` if its ranks are on several nodes."""
    phase: Phase
    """Part of the step."""
    ranks: Positive
    """How many take part."""
    times: Count
    """How often in a step."""
    sent_bytes: NonNegative
    """Bytes that one rank sends in a step."""
    seconds: NonNegative | None
    """In a step, if nothing is computed meanwhile; None without rates of the link."""
    overlaps: bool
    """Computation goes on meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Where the time of a step goes. The parts add up to the step."""

    seconds: NonNegative
    """Duration of one step."""
    compute_seconds: NonNegative
    """Operations of the slowest stage."""
    communication_seconds: NonNegative
    """Waiting for communication that no computation hides, in the slowest stage."""
    bubble_seconds: NonNegative
    """Waiting for other pipeline stages."""
    loss_seconds: NonNegative
    """Loss of published runs beside these, as fitted to them: the host, clocks, kernels slower than their kind."""
    hidden_communication_seconds: NonNegative
    """Communication behind computation: no part of the sum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """Saving of another kernel or layout in a step, everything else unchanged."""

    change: str
    """The change, such as `fused norm`."""
    seconds: NonNegative
    """That a step would be shorter."""
    basis: str
    """How the figure is derived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FittingSetting:
    """The nearest change with which the memory suffices."""

    settings: tuple[str, ...]
    """As `--set` takes them."""
    total_bytes: Count
    """Largest total of a stage with them, by the analytic form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedError:
    """How far estimates were from published figures."""

    memory: NonNegative
    """Median relative error of memory, each row left out of the fit in turn."""
    memory_within_tenth: Count
    """Rows with an error of at most 10 %."""
    memory_rows: Count
    """Rows it is from."""
    throughput: NonNegative
    """Median relative error of throughput of the nearest kind of row."""
    throughput_largest: NonNegative
    """Largest error of estimated / published - 1 of the nearest kind of row, or of all rows if that is larger."""
    throughput_rows: Count
    """Rows of the nearest kind."""
    nearest: str
    """Method, models, precisions and devices of that kind."""
    device_throughput: tuple[float, ...]
    """Relative error of throughput of each row on this device model; below 0 where the estimate was slower."""
    method: Literal["fake tensors", "analytic"]
    """How the slowest stage was traced: rows by this method are compared."""
    rows: str
    """Models, precisions and devices of published rows with throughput by this method."""
    outside: tuple[str, ...]
    """Properties of this estimate that no such row has."""
    source: str
    """The command that computed it, and what it was held against."""
    date: str
    """ISO date."""

    def throughputs(self, estimated: float) -> tuple[float, float]:
        """The least and the most that an estimated throughput may be, so that a cost lies within as large an error."""
        largest = self.throughput_largest
        return estimated / (1 + largest), estimated / (1 - largest) if largest < 1 else inf


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatedCost:
    """Cost of a training at the estimated throughput, extrapolated by the same rules as in reports."""

    price: NonNegative | None
    """Price of one whole device for an hour, in `price_currency`; None without a price of the device."""
    price_currency: str | None
    """ISO 4217, such as `USD`."""
    price_date: str | None
    """ISO date on which the price held."""
    price_source: str | None
    """Where it is published, or who offered it."""
    price_file: str | None
    """The file of prices; None without one."""
    cost_per_million_tokens: NonNegative | None
    """In `price_currency`."""
    train_tokens: NonNegative | None
    """Tokens of the whole training; None if unknown."""
    train_tokens_source: str
    """The reason why so many, or why they are unknown."""
    train_device_hours: NonNegative | None
    """Hours x devices."""
    train_seconds: NonNegative | None
    """On the estimated devices."""
    train_cost: NonNegative | None
    """Device hours x price, in `price_currency`."""
    expected_error: NonNegative | None
    """Expected error of throughput: the figures above are as much lower or higher at the largest error of the nearest
    kind of row. None if that is not known."""
    cost_assumes: str
    """Assumptions of the figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Requirements and performance of a case on a device, without that device."""

    schema: str
    """Name and version of this document's schema."""
    created: str
    """UTC, ISO 8601."""
    llmperf_version: str
    """That estimated."""
    spec: RunSpec
    """Contract and tuning."""
    vendor: str
    """Name of the vendor plugin."""
    device_model: str
    """As the vendor names it."""
    layout: Layout
    """How ranks share the model."""
    batch: Batch
    """Batch arithmetic."""
    memory: tuple[StageMemory, ...]
    """Memory of each traced stage."""
    fits: bool | None
    """Every stage fits; None if the memory of the device is not known."""
    nearest: FittingSetting | None
    """The nearest setting that fits, if the case does not and one was found."""
    time: StepTime | None
    """Time of a step; None without rates."""
    time_problem: str | None
    """The reason why there is no time, such as a memory that does not suffice; None if there is."""
    stages: tuple[StageTime, ...]
    """Busy time of each traced stage; empty without rates."""
    tokens_per_second_per_device: NonNegative | None
    """token/p/s; None without a time."""
    mfu: tuple[Mfu, ...]
    """Under every convention."""
    operations: tuple[OperationTime, ...]
    """Operations of the slowest stage, longest first."""
    communication: tuple[Communication, ...]
    """Communication of the slowest stage, longest first."""
    savings: tuple[Saving, ...]
    """Savings by other kernels or layouts, most first."""
    host_waits: tuple[HostWait, ...] | None
    """Places where the host waits for the device in a step; None if not known."""
    kernels: Count
    """Launched in a step of the slowest stage."""
    rates: DeviceRates | None
    """Measured or assumed rates of the device; None if not known."""
    expected_error: ExpectedError | None
    """From calibration."""
    tracing: tuple[TracerUse, ...]
    """Resources for tracing."""
    stand_ins: tuple[str, ...] = ()
    """Replacements that let the trainer run without the device."""
    notes: tuple[str, ...] = ()
    """Notes for readers."""
    tuned_elsewhere: tuple[str, ...] = ()
    """Settings that overlays change in the same case on other devices, each with those devices."""
    cost: EstimatedCost | None = None
    """With prices or tokens of a training; None without them, and where the memory does not suffice."""
