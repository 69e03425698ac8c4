"""Records of ranks and the sampler during a run: JSON lines in `records/rank-NNNNN.jsonl` and `memory.jsonl`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Protocol, runtime_checkable

from llmperf.types import frozen
from llmperf.types.devices import DeviceSample
from llmperf.types.hosts import Resource
from llmperf.types.tracing import StepProfile
from llmperf.types.units import Count, NonNegative, Positive


@runtime_checkable
class DeferredScalar(Protocol):
    """A number that the device may not have computed yet."""

    def ready(self) -> bool:
        """Check whether `float()` would not block."""

    def __float__(self) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutput:
    """The result of one optimiser step on one rank."""

    loss: float | DeferredScalar | None
    """Mean cross entropy per token of this rank's part, in nats; None on ranks that do not compute it."""
    tokens: Count
    """Tokens this rank trained on. Ranks that share their data (tensor, pipeline parallel) report them once: the sum
    over ranks is the step's tokens."""
    grad_norm: float | DeferredScalar | None = None
    """Norm of the whole gradient before clipping; None if the framework does not compute it."""
    skipped: bool | DeferredScalar | None = None
    """True if the update was skipped because gradients were not finite, as a loss scaler does in fp16; a deferred
    number other than 0 means true. None if the framework does not know."""


class Trainer(Protocol):
    """A model, its data and its optimiser, ready to step; a context manager.

    A trainer may also have a method `communication_seconds() -> float | None`: the seconds so far, in all steps, in
    which this rank's computation waited for communication with other ranks; None if it does not know. What goes on
    beside computation does not count. It is called at both edges of the measured window, when the device has done all
    its work; the trainer must not make the device wait to know it.

    It may have a property `kernels: Mapping[str, str]`: which kernel computes what, such as
    `{"attention": "flash", "rms_norm": "torch.nn.functional.rms_norm", "optimizer": "AdamW, fused"}`; a property
    `precisions: Mapping[str, str]`: the precision that each group of modules ran in, such as
    `{"projections of blocks": "fp8 e4m3, rowwise", "other products": "bf16"}`; and a method
    `compile_seconds() -> float | None`: the seconds in which a compiler has worked for this rank so far. All are read
    after the last step.

    A trainer of a mixture may have a method `expert_tokens() -> Sequence[Sequence[int]] | None`: for each layer with
    experts that this rank holds, in their order, the tokens that each expert of the model has taken of this rank's data
    in all steps so far, wherever that expert is; a pass that recomputes activations counts nothing. None if it does not
    count them. It is called at both edges of the measured window and may wait for the device, which has done its work.

    It may have a method `first_losses() -> Sequence[float] | None`: the mean cross entropy, in nats per token, of each
    sequence of step 1 of this rank's data, in the order of micro steps, then of rows; in a padded sequence the mean of
    the tokens that are learnt. None if it does not know them. The values come from the forward passes of step 1
    itself: no pass is repeated. It is called once, after the warm-up steps and before the measured ones, only on ranks
    that report a loss, and not at all without warm-up steps; it must not communicate with other ranks.
    """

    @property
    def parameter_count(self) -> int:
        """Parameters of the whole model that was built, equal on all ranks: the core compares it with the plan's.

        Sharded parameters count with their whole size, tied ones once, adapters not at all. Ranks that hold only a
        stage of a pipeline add up the stages' counts.
        """

    def train_step(self) -> StepOutput:
        """Do one optimiser step with all its micro batches; wait for the device only if that is unavoidable."""

    def evaluate(self) -> Mapping[str, float] | Iterator[Mapping[str, float]]:
        """Figures other than the training loss, computed after the run; may be empty.

        `whole/part` is the name of a part of the figure `whole`. A long evaluation returns an iterator of partial
        answers, which may be empty: each shows that the rank has not hung.
        """

    def close(self) -> None:
        """Release all resources, process groups included."""

    def __enter__(self) -> Trainer: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


Phase = Literal["starting", "loading", "building", "warming up", "measuring", "evaluating", "done"]
"""The phases of a rank, in their order."""


@frozen.dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRecord:
    """A rank enters a phase."""

    kind: Literal["phase"] = "phase"
    """Kind of the record."""
    rank: Count
    """The rank."""
    phase: Phase
    """The phase that begins."""
    at: NonNegative
    """Seconds since the epoch, host clock."""
    monotonic: NonNegative
    """The same moment in seconds of the host's CLOCK_MONOTONIC, which cannot be set. Intervals are computed from it;
    it is comparable only between processes of one host. The measured window lasts from `measuring` to `evaluating`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One optimiser step on one rank."""

    kind: Literal["step"] = "step"
    """Kind of the record."""
    rank: Count
    """The rank."""
    step: Positive
    """Number of the step, from 1, warm-up included."""
    measured: bool
    """False for a warm-up step."""
    at: NonNegative
    """Seconds since the epoch when `train_step` returned, host clock."""
    monotonic: NonNegative
    """The same moment in seconds of the host's CLOCK_MONOTONIC."""
    step_seconds: NonNegative
    """Duration by device events."""
    tokens: Count
    """Tokens this rank trained on."""
    loss: float | None
    """Mean cross entropy per token of this rank's part, in nats; None if this rank does not compute it."""
    nonfinite: Literal["nan", "inf", "-inf"] | None = None
    """The loss if it was not finite; `loss` is None then."""
    grad_norm: float | None = None
    """Norm of the whole gradient before clipping; None if the framework does not compute it."""
    skipped: bool | None = None
    """True if the update was skipped because gradients were not finite; None if the framework does not know."""


StepClock = Literal["device events", "script", "line arrivals"]
"""Sources of step times: the device's events, what an external script prints, or when its lines arrive."""


@frozen.dataclass(frozen=True, slots=True, kw_only=True)
class RankRecord:
    """The figures of a rank over the whole measured window, written at its end."""

    kind: Literal["rank"] = "rank"
    """Kind of the record."""
    rank: Count
    """The rank."""
    measured_steps: Count
    """Steps in the window."""
    measured_tokens: Count
    """Tokens this rank trained on in the window, without those of skipped steps."""
    window_seconds: NonNegative
    """Wall time of the measured steps between two synchronised edges."""
    communication_seconds: NonNegative | None = None
    """Seconds of the window in which the rank's computation waited for communication with other ranks; None if the
    framework does not measure it."""
    step_clock: StepClock = "device events"
    """Source of the times of the measured steps."""
    kernels: Mapping[str, str] = field(default_factory=dict)
    """Kernels by what they compute; empty if the framework does not report them."""
    precisions: Mapping[str, str] = field(default_factory=dict)
    """Precision of each group of modules; empty if the framework does not report it."""
    compile_seconds: NonNegative | None = None
    """Seconds in which a compiler worked for this rank; None if the framework does not report it."""
    peak_memory_bytes: Count | None
    """Highest memory use of this rank in the window; None if it cannot be known."""
    peak_reserved_bytes: Count | None = None
    """Most that its allocator had taken from the device, used or not; None if it cannot be known."""
    evaluation: Mapping[str, float | None]
    """Figures other than the training loss; `whole/part` is a part of `whole`. None if it was not a number."""
    packages: Mapping[str, str]
    """Versions of packages that this rank ran with."""
    data_fingerprint: str | None = None
    """SHA-256 that identifies the data that this rank read, as in `Plan`; None if it read none by llmperf."""
    startup_modules: Mapping[str, str] = field(default_factory=dict)
    """Files of `sitecustomize` and `usercustomize`, which the interpreter imports by itself, by name; without those
    that came with the interpreter."""


@frozen.dataclass(frozen=True, slots=True, kw_only=True)
class ExpertsRecord:
    """The tokens that experts took of a rank's data in the measured window, written at its end.

    Only ranks that are the first of their tensor-parallel group write it: the others have the same data.
    """

    kind: Literal["experts"] = "experts"
    """Kind of the record."""
    rank: Count
    """The rank."""
    layers: tuple[tuple[Count, ...], ...]
    """Tokens that each expert took, for each layer with experts of the rank's pipeline stage."""


@frozen.dataclass(frozen=True, slots=True, kw_only=True)
class FurtherRecord:
    """A record that an extension wrote of a rank, as it was read: `llmperf.decode(record.line, TYPE, WHERE)`."""

    kind: str
    """The kind that the extension gave it."""
    rank: Count
    """The rank."""
    line: bytes
    """The whole record, as JSON."""


@frozen.dataclass(frozen=True, slots=True, kw_only=True)
class RankRecords:
    """A record that is written of a rank beside its steps, from what its trainer knows; a rank has at most one.

    The functions return the record, a dataclass with the fields `kind` and `rank` that is one line of JSON of at most
    1 MiB, or None. The trainer's device has done all its work at the edges of the measured window.
    """

    kind: str
    """The kind of the record: lower-case letters, digits and underscores, a letter first."""
    warmed_up: Callable[[float | DeferredScalar | None], object | None] = lambda loss: None
    """Called with the loss of step 1 after the warm-up steps, if there are any, while the device is still at work."""
    begin: Callable[[], None] = lambda: None
    """Called at the first edge of the measured window."""
    end: Callable[[], object | None] = lambda: None
    """Called at its second edge."""


@frozen.dataclass(frozen=True, slots=True, kw_only=True)
class FailureRecord:
    """An exception that ended a rank."""

    kind: Literal["failure"] = "failure"
    """Kind of the record."""
    rank: Count
    """The rank that ended."""
    at: NonNegative
    """Seconds since the epoch, host clock."""
    exception: str
    """Name of its type."""
    message: str
    """Its message."""
    traceback: str
    """Traceback as Python prints it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSample:
    """One reading of a node's host; counters, of which only differences count."""

    cores: Positive
    """Cores that the run may use."""
    busy_seconds: NonNegative
    """CPU time of those cores for all processes, summed over the cores."""
    own_seconds: NonNegative
    """CPU time of the controller and of every process it has started, directly or not."""
    other_processes: Count | None = None
    """Processes on the node's devices that are not of this run; None if unknown."""
    programs: Mapping[str, NonNegative] = field(default_factory=dict)
    """CPU seconds since the reading before of the programs of others that used most, by name."""
    stalled_seconds: Mapping[Resource, NonNegative] = field(default_factory=dict)
    """Time since the system was started in which some task waited for a resource; without those that are unknown."""
    memory_available_bytes: Count | None = None
    """Memory that new processes could have without swapping; None if unknown."""
    swapped_bytes: Count | None = None
    """Traffic to and from swap space since the system was started; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySample:
    """One reading of a node's devices by the sampler of the node."""

    kind: Literal["memory"] = "memory"
    """Kind of the record."""
    at: NonNegative
    """Seconds since the epoch, host clock."""
    monotonic: NonNegative
    """The same moment in seconds of the host's CLOCK_MONOTONIC."""
    query_seconds: NonNegative
    """Duration of the reading itself."""
    devices: tuple[DeviceSample, ...]
    """One reading for each device of the node."""
    host: HostSample | None = None
    """The host at the same moment; None if the system does not show it."""
    node_rank: Count = 0
    """The node whose devices were read."""


@frozen.dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRecord:
    """Profile of a few steps of a rank."""

    kind: Literal["profile"] = "profile"
    """Kind of the record."""
    rank: Count
    """The rank."""
    profile: StepProfile
    """The profile."""


Record = (
    PhaseRecord | StepRecord | RankRecord | ExpertsRecord | FurtherRecord | FailureRecord | MemorySample | ProfileRecord
)
