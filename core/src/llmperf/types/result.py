"""What came out: `runs/<id>/result.json`, a pure function of the plan and the records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from llmperf.types.plan import Batch, Layout, PluginInfo
from llmperf.types.spec import Change, Contract, Model, Scalar, Tuning
from llmperf.types.units import Count, NonNegative, Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing the validator has to say."""

    code: str
    severity: Literal["error", "warning", "note"]
    path: str
    """JSON pointer into the document."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a run is not complete."""

    rank: Count | None
    """The rank it began with; None where that cannot be told."""
    reason: Literal["exception", "killed", "exited", "hung", "nonfinite loss", "interrupted", "controller"]
    exception: str | None
    message: str
    log_tail: tuple[str, ...]
    """Last lines of that rank's log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """The machine, as probed."""

    vendor: str
    device_model: str
    nodes: Positive
    devices_per_node: Positive
    device_share: NonNegative
    device_memory_bytes: Positive | None
    driver: str | None
    interconnect: str | None
    host_cpu: str | None
    host_memory_bytes: Positive | None
    simulated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """What it ran on."""

    os: str
    kernel: str
    python: str
    packages: Mapping[str, str]
    """From the ranks: torch, deepspeed, ..."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables llmperf set for the ranks, from an allow-list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStatistics:
    """Of the measured steps; each step counts with its slowest rank."""

    median: NonNegative
    p5: NonNegative
    p95: NonNegative
    mean: NonNegative
    mean_low: NonNegative | None
    """95 % confidence interval of the mean, by batch means, which allows for autocorrelation; None under 20 steps."""
    mean_high: NonNegative | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMemory:
    """Peak memory of one rank, with the pipeline stage it is in."""

    rank: Count
    pipeline_stage: Count
    peak_bytes: Count | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The figures. An unknown one is None."""

    tokens_per_second_per_device: NonNegative | None
    """Tokens of the measured steps / wall time of the slowest rank / devices."""
    tokens_per_second: NonNegative | None
    measured_steps: Count
    measured_tokens: Count
    window_seconds: NonNegative | None
    step_seconds: StepStatistics | None
    first_loss: float | None
    final_loss: float | None
    """Mean over ranks, of the first and the last step."""
    known_entropy: NonNegative | None
    """Nats per token below which no model can get on this data; None where unknown."""
    rank_memory: tuple[RankMemory, ...] = ()
    device_memory_used_bytes: Count | None = None
    """Most that the sampler saw in use on one whole device."""
    device_memory_total_bytes: Count | None = None
    utilisation_percent: NonNegative | None = None
    """Mean over the measured window."""
    power_watts: NonNegative | None = None
    evaluation: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mfu:
    """Model (or hardware) FLOPs utilisation under one convention."""

    convention: Literal["nominal", "exact", "palm", "causal", "hfu"]
    headline: bool
    flops_per_token: NonNegative
    formula: str
    leaves_out: tuple[str, ...]
    peak_flops_per_second: NonNegative | None
    """Of one rank's share of a device."""
    peak_dtype: str | None
    peak_source: str | None
    value: NonNegative | None
    """token/p/s x flops_per_token / peak; None without a peak or a throughput."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossPoint:
    """Mean loss over ranks at one step."""

    step: Count
    loss: float | None
    nonfinite: str | None = None
    grad_norm: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One run, whole."""

    schema: str
    run_id: str
    created: str
    finished: str
    provenance: Literal["measured", "imported"]
    status: Literal["complete", "failed", "aborted"]
    failure: Failure | None
    case: str
    title: str
    variant: bool
    fix_hp: tuple[Change, ...]
    model: Model
    parameters: Positive
    contract: Contract
    tuning: Tuning
    framework: Mapping[str, Scalar]
    """Options of the framework plugin."""
    hardware: Hardware
    software: Software
    parallelism: Layout
    batch: Batch
    metrics: Metrics
    mfu: tuple[Mfu, ...]
    loss_curve: tuple[LossPoint, ...]
    plugins: tuple[PluginInfo, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    """How figures were made where that is not plain."""
    files: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the plan and the records this result was computed from."""


class Reporter(Protocol):
    """Renders results in one format."""

    name: str
    """What `--format` takes."""

    def render(self, results: tuple[tuple[Path, Result], ...], language: str) -> str:
        """The whole report as text."""
        ...
