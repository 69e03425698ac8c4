"""Result of a run: `runs/<id>/result.json`, a pure function of the plan and the records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from llmperf.types.devices import PeakFlops
from llmperf.types.flop_counts import Mfu
from llmperf.types.frozen import dataclass
from llmperf.types.hosts import Hardware, NodeConditions, NodeResult, Software, Waiting
from llmperf.types.layout import Batch, Layout
from llmperf.types.models import Model
from llmperf.types.rates import MeasuredPeak
from llmperf.types.spec import Change, Contract, Scalar, Tuning
from llmperf.types.units import Count, Digest, NonNegative, Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing the validator has to say."""

    code: str
    """Stable; `llmperf validate --explain CODE` shows its page."""
    severity: Literal["error", "warning", "note"]
    """Only an error makes the document invalid."""
    path: str
    """JSON pointer into the document."""
    message: str
    """One line: found and expected."""
    more: Count = 0
    """Further findings of this kind in the document, which are not listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The reason why a run is not complete."""

    rank: Count | None
    """The rank that failed first; None if unknown."""
    node_rank: Count | None = None
    """The node where that was; None if unknown, and on a single node."""
    reason: Literal["exception", "killed", "exited", "hung", "lost", "nonfinite loss", "interrupted", "controller"]
    """Kind of failure; `lost`: a node did not answer any more."""
    exception: str | None
    """Name of the exception's type; None without an exception."""
    message: str
    """One line."""
    log_tail: tuple[str, ...]
    """Last lines of that rank's log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    """A plugin as it was loaded, for the record."""

    name: str
    """Name of its entry point."""
    role: Literal["vendor", "framework", "extension", "core"]
    """Role, which determines the hooks that it may answer."""
    distribution: str
    """The installed package it came with."""
    version: str
    """Version of the distribution."""
    source_hash: str | None = None
    """SHA-256 over the source files of the plugin's package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepQuarter:
    """Seconds of a quarter of the measured steps, in the order of time; each step counts with its slowest rank."""

    median: NonNegative
    """Seconds."""
    p25: NonNegative
    """25th percentile, seconds."""
    p75: NonNegative
    """75th percentile, seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStatistics:
    """Seconds of the measured steps; each step counts with its slowest rank."""

    median: NonNegative
    """Seconds."""
    p5: NonNegative
    """5th percentile, seconds."""
    p95: NonNegative
    """95th percentile, seconds."""
    mean: NonNegative
    """Seconds."""
    mean_low: NonNegative | None
    """95 % confidence interval of the mean, by batch means, which allows for autocorrelation; None under 20 steps."""
    mean_high: NonNegative | None
    """Upper end of that interval."""
    quarters: tuple[StepQuarter, ...] = ()
    """The four quarters of the steps, as equal in length as whole steps allow; empty under 20 steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMemory:
    """Peak memory of one rank, with the pipeline stage it is in."""

    rank: Count
    """The rank."""
    pipeline_stage: Count
    """Pipeline stage, from 0."""
    peak_bytes: Count | None
    """Most it held in the measured window; None where it cannot be known."""
    reserved_bytes: Count | None = None
    """Most that its allocator had taken from the device, used or not; None where it cannot be known."""


DRIFT = 0.1
"""A run drifts if the medians of the first and the last quarter of its steps differ by more than this share."""
CLOCK_FALL = 0.05
"""Share by which the clocks of devices may fall in the measured window; a device at its power limit varies by less."""
FEWEST_DRIFT_STEPS = 40
"""Ten in each quarter: the middle halves of two quarters of fewer steps are apart by chance too often."""
MEAN_UNCERTAINTY = 0.05
"""Half the confidence interval of the mean step, by the mean, up to which a throughput is known well."""
SWAPPED_BYTES = 256 * 2**20
"""Traffic to and from swap space in the measured window. Single pages come back at any time; a host that lacks memory
moves hundreds of MiB a second."""
MEMORY_PRESSURE = 0.1
"""Share of the time in which some task waits for memory: 0 where there is enough."""
UNEVEN_MEAN = 1.5
"""A run is disturbed if mean step / median step exceeds this."""
UNEVEN_QUANTILES = 3.0
"""A run is disturbed if the 95 % quantile / 5 % quantile of its steps exceeds this."""
OTHER_CPU_SHARE = 0.1
"""Share of the host's cores that other processes may use. Background work of a quiet host takes 1 or 2 %; more than
this slows down a run that computes or prepares its data on the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The figures. An unknown one is None."""

    tokens_per_second_per_device: NonNegative | None
    """Tokens of the measured steps / wall time of the slowest rank / ranks. If ranks share a device, as on a CPU, this
    is the throughput of one rank, not of one device."""
    tokens_per_second: NonNegative | None
    """Throughput of all ranks together."""
    measured_steps: Count
    """Optimiser steps in the window."""
    measured_tokens: Count
    """Tokens of those steps over all ranks, skipped steps not counted."""
    window_seconds: NonNegative | None
    """Wall time of the measured steps on the slowest rank, skipped steps included."""
    step_seconds: StepStatistics | None
    """Spread of the step times, in seconds."""
    first_loss: float | None
    """Mean over ranks at the first step, nats per token."""
    final_loss: float | None
    """Mean over ranks at the last recorded step, nats per token."""
    known_entropy: NonNegative | None
    """Nats per token below which no model can get on this data; None if unknown."""
    rank_memory: tuple[RankMemory, ...] = ()
    """One entry for each rank."""
    skipped_steps: Count | None = None
    """Measured steps whose update was left out because gradients were not finite, as a loss scaler does in fp16: their
    time counts, their tokens do not. None where the framework does not report it."""
    device_memory_used_bytes: Count | None = None
    """Most that the sampler saw in use on one whole device; None unless every device showed it."""
    device_memory_total_bytes: Count | None = None
    """Memory of that device."""
    utilisation_percent: NonNegative | None = None
    """Mean over the measured window and the devices; None unless every device showed it."""
    power_watts: NonNegative | None = None
    """Power of a device: mean over the measured window and the devices; None unless every device showed it."""
    energy_joules: NonNegative | None = None
    """Drawn by all devices in the measured window, the rest of their hosts not counted. None where the readings do not
    cover every device and the window."""
    energy_source: Literal["counter", "power readings"] | None = None
    """Origin of the energy: counters of the devices, or the integral of readings of their power."""
    joules_per_token: NonNegative | None = None
    """energy_joules / measured_tokens."""
    tokens_per_joule: NonNegative | None = None
    """measured_tokens / energy_joules."""
    throttling: Mapping[str, NonNegative] | None = None
    """Share of the readings of a node in the measured window in which any device was slowed, for each reason, on the
    node where it was largest. Empty when none was; None where unknown, also of one device alone."""
    other_cpu_share: NonNegative | None = None
    """Share of a host's cores that processes other than the run's own had in the measured window, on the node where it
    was largest; None if unknown."""
    other_cpu_share_before: NonNegative | None = None
    """The same just before the ranks were started."""
    other_processes: Count | None = None
    """Most processes of others that computed on the devices of one node in the window; None if unknown."""
    other_processes_before: Count | None = None
    """Processes that computed on the devices of one node just before the ranks were started; None if unknown."""
    compile_seconds: NonNegative | None = None
    """Seconds in which a compiler worked for this rank; None if the framework does not report it."""
    evaluation: Mapping[str, float | None] = field(default_factory=dict)
    """Figures other than the training loss; `whole/part` is a part of `whole`. None if it was not a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossPoint:
    """Mean loss over ranks at one step."""

    step: Positive
    """Number of the step, from 1, warm-up included."""
    loss: float | None
    """Nats per token; None when it was no number."""
    nonfinite: str | None = None
    """The value that was not a finite number, as text."""
    grad_norm: float | None = None
    """Norm of the whole gradient before clipping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One run, whole."""

    schema: str
    """Name and version of this document's schema."""
    run_id: str
    """Name of the run folder."""
    created: str
    """Time of planning: UTC, ISO 8601."""
    finished: str
    """Time at the end of the run: UTC, ISO 8601, by the clock as it was when the run began."""
    provenance: Literal["measured"]
    """Measured by llmperf. Figures of published tables have their own kind of document, `published`."""
    status: Literal["complete", "failed", "aborted"]
    """End of the run; `complete` if all steps were done."""
    failure: Failure | None
    """The reason why the run is not complete; None when it is."""
    case: str
    """Name of the case."""
    title: str
    """Title of the case."""
    variant: bool
    """The contract was changed, so that it is not the case's own figure."""
    fix_hp: tuple[Change, ...]
    """Every departure from the case."""
    challenge: str | None = None
    """The nonce of the challenge that determines the seed, 64 hexadecimal digits: that seed is no departure from the
    case. Whether somebody issued it, only the issuer can say (`llmperf challenge check`). None without a challenge."""
    model: Model
    """The facts of the model."""
    parameters: Positive
    """Counted exactly from those facts, adapters not counted."""
    contract: Contract
    """The contract, changes applied."""
    data_fingerprint: str | None = None
    """SHA-256 that identifies the data, as the controller read them: of synthetic data over the figures that define
    them, else over tokens. None if the controller did not read them."""
    tuning: Tuning
    """Tuning, changes applied."""
    framework: Mapping[str, Scalar]
    """Options of the framework plugin."""
    kernels: Mapping[str, str] = field(default_factory=dict)
    """Kernels by what they compute, as the ranks report them; empty if the framework does not."""
    precisions: Mapping[str, str] = field(default_factory=dict)
    """Precision of each group of modules, as the ranks report it; empty if the framework does not."""
    emulated: bool = False
    """Products in fp8 were emulated (`tuning.emulate_precision`): losses are those of fp8, speed is not."""
    hardware: Hardware
    """The machine, as probed."""
    software: Software
    """Software of the nodes."""
    parallelism: Layout
    """Layout of the ranks."""
    batch: Batch
    """Batch arithmetic."""
    metrics: Metrics
    """The figures."""
    mfu: tuple[Mfu, ...]
    """One entry for each convention."""
    peak_problem: str | None = None
    """The reason why there is no peak, and so no MFU; None where there is a peak."""
    measured_peak: MeasuredPeak | None = None
    """The fastest matrix product measured on this machine; None without a measurement that holds for the run."""
    peak_again: PeakFlops | None = None
    """The peak of the whole device, measured anew after the run; None if the vendor's peak is not measured, after a
    measured window of less than 1 s, and if it could not be measured. MFU is by the larger of the two figures."""
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Figures of sections, which core and extensions add (`llmperf_result_sections`), by name."""
    nodes: tuple[NodeResult, ...] = ()
    """The nodes of a run through a launcher; empty for a run on the machine of its controller."""
    conditions: tuple[NodeConditions, ...] = ()
    """Activity of others on each node before the run and in its measured window; without nodes that do not show it."""
    waiting: Waiting | None = None
    """Time that ranks waited for communication, and stragglers; None unless the framework shows it of every rank."""
    expert_load: tuple[LayerLoad, ...] = ()
    """One entry for each layer with experts; empty unless the framework counts their tokens on every rank."""
    loss_curve: tuple[LossPoint, ...]
    """One point for each step of a run of at most 10,000 steps; otherwise every 2nd, 4th, 8th ... step, the last one,
    and those whose loss is no number (the first 1,000 of them)."""
    loss_curve_every: Positive = 1
    """Steps from one point of the loss curve to the next: 1 if it has all steps."""
    plugins: tuple[PluginInfo, ...]
    """The plugins that were loaded."""
    findings: tuple[Finding, ...]
    """Findings of the validator."""
    notes: tuple[str, ...] = ()
    """Notes on how figures were computed, if that is not obvious."""
    files: Mapping[str, Digest] = field(default_factory=dict)
    """SHA-256 of the plan and the records this result was computed from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerLoad:
    """The load of one layer's experts in the measured window, over all ranks."""

    layer: Count
    """Number of the layer, from 0, layers without experts included; multi-token layers follow the others."""
    tokens: tuple[Count, ...]
    """Tokens that each expert took; padding and skipped steps included, since they are computed too."""
    imbalance: NonNegative | None
    """Most tokens of an expert / mean of all: 1 if they are equal, experts / top-k if all tokens took the same ones.
    None without tokens."""
