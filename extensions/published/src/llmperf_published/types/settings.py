"""Machine and settings of published rows, as far as the document states them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from llmperf.types.units import Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationName:
    """The name of a configuration, which says what it is for: `config_TP2PP4SH1SP1A10080Gx1x8`."""

    line: Positive
    """Its place in the source."""
    text: str
    """As printed."""
    device: str | None = None
    """The accelerator it is for: `A100`."""
    memory: Positive | None = None
    """Memory of that accelerator, GB."""
    nodes: Positive | None = None
    """Machines."""
    devices_per_node: Positive | None = None
    """Accelerators in each."""
    degrees: Mapping[str, int] = field(default_factory=dict)
    """By their printed names: TP, PP, DP, SH (sharding stage), SP (sharding degree), EP, ..."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """How the document says that the global batch follows from other settings."""

    line: Positive
    """Its place in the source."""
    text: str
    """As printed."""
    numerator: tuple[str, ...]
    """Names of the factors: `micro_batch`, `gradient_accumulation`, `data_parallel`, `world_size`, ..."""
    denominator: tuple[str, ...] = ()
    """Denominator of the expression."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedHardware:
    """Machine of a row."""

    configuration: str | None
    """The cell as printed, without Markdown: `A100单机8卡（1x8*80G）`."""
    device: str | None
    """The accelerator that the row names: `A100`."""
    device_model: str | None
    """The accelerator that the environment names; None where it names several or none."""
    nodes: Positive | None
    """Machines."""
    devices_per_node: Positive | None
    """Accelerators in each."""
    devices: Positive | None
    """Accelerators in all, where the row counts them in words (`16卡`)."""
    device_memory: Positive | None
    """Memory of one accelerator as the row names it (`80G`), GB."""

    @property
    def world_size(self) -> int | None:
        """Accelerators in all: nodes x devices, else as counted in words; None where the row does not say."""
        return self.nodes * self.devices_per_node if self.nodes and self.devices_per_node else self.devices


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedLayout:
    """How ranks share the model, as far as it is said."""

    tensor_parallel: Positive | None = None
    """Ranks that split each layer."""
    pipeline_parallel: Positive | None = None
    """Stages that the layers are divided into."""
    data_parallel: Positive | None = None
    """Ranks that see different data, only where it is printed."""
    sharding_stage: Literal[0, 1, 2, 3] | None = None
    """0: replicated; 1: optimiser states; 2: and gradients; 3: and parameters."""
    sharding_degree: Positive | None = None
    """Ranks that share one copy of the sharded state."""
    other: Mapping[str, int] = field(default_factory=dict)
    """Further degrees by their printed names: EP, CP, ..."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedBatch:
    """Batch settings, as far as they are said or follow."""

    micro_batch: Positive | None = None
    """Sequences in one forward pass of one data-parallel rank."""
    gradient_accumulation: Positive | None = None
    """Forward passes in one optimiser step."""
    data_parallel: Positive | None = None
    """Ranks that see different data."""
    global_batch: Positive | None = None
    """Sequences in one optimiser step: computed from the three where all are known."""
    seq_len: Positive | None = None
    """Tokens in one sequence."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Where each comes from: `fix_hp`, `batch defaults`, `nodes x devices / (TP x PP)`, ..."""
