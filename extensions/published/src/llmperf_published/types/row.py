"""Parts of a published row: figures with their printed text, machine, settings, facts of the importer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from llmperf.types import Lora, Model
from llmperf.types.devices import Dtype
from llmperf.types.units import Positive
from llmperf_vendorkit import PeakEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A printed number with its unit and value."""

    text: str
    """The cell as printed, without Markdown."""
    value: float | None
    """The number in the field's unit: a share for 38.6 %, tokens for 4M. None where it is withheld."""
    printed: str | None = None
    """Its digits as printed: `38.6`. What a rule computes is held against these, rounded or cut off. None where the
    cell gives an expression and no outcome."""
    scale: float = 1.0
    """value / printed: 0.01 for percent, 1e6 for `4M`."""
    unit: str | None = None
    """As printed: `tokens/s`, `GB`, `%`."""
    expression: str | None = None
    """How the cell says that it was computed: `16.67 * 2048 / 8`."""
    computed: float | None = None
    """Value of that expression, in printed units."""

    @property
    def stated(self) -> bool:
        """There is a number."""
        return self.value is not None

    @property
    def bounds(self) -> tuple[float, float]:
        """The values that round (half up) or are cut off to what is printed: low inclusive, high exclusive.

        ValueError where there is no value.
        """
        if self.value is None:
            raise ValueError(f"no number in {self.text!r}")
        if self.printed is None:
            return self.value, self.value
        mantissa, _, exponent = self.printed.lower().partition("e")
        step = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2])) * self.scale
        low, high = (step / 2, step) if self.value >= 0 else (step, step / 2)
        return self.value - low, self.value + high

    def admits(self, value: float, slack: float = 1e-9) -> bool:
        """Check whether `value` may have been printed so: rounded, cut off, or within a relative `slack`."""
        low, high = self.bounds
        margin = slack * max(abs(low), abs(high))
        return low - margin <= value <= high + margin


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPart:
    """One term of a memory cell: `46.80*2` is 46.80 on each of 2 devices."""

    each: Figure
    """Memory of each device, in the cell's unit."""
    devices: Positive | None
    """How many; None where the cell does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedMemory:
    """A memory cell: `32/40`, `70.09 * 8 GB`, `46.80*2 + 38.93*2 + 31.74*2 + 26.92*2 GB`."""

    text: str
    """The cell as printed, without Markdown."""
    used: tuple[MemoryPart, ...]
    """Memory in use; several entries if the document has one per pipeline stage. Empty if it gives none."""
    total: Figure | None
    """Total memory of one device; None where the cell does not say."""
    unit: str | None
    """As the cell prints it, else as the document explains it; None where neither does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedMetrics:
    """The figures of a row. None where there is no such column; a Figure without value where it is withheld."""

    tokens_per_second_per_device: Figure | None = None
    """Throughput of one device."""
    tokens_per_second: Figure | None = None
    """Throughput of all devices, where the table gives that."""
    loss: Figure | None = None
    """Training loss."""
    mfu: Figure | None = None
    """A share; the value of 38.6 % is 0.386."""
    hfu: Figure | None = None
    """Hardware FLOPs utilisation, which counts recomputed operations too; a share."""
    memory: PublishedMemory | None = None
    """Device memory."""
    aligned: bool | None = None
    """The row says that its losses agree with the reference's; None where it does not say."""
    evaluation: Mapping[str, Figure] = field(default_factory=dict)
    """Accuracies and the like, by their column's header."""
    other: Mapping[str, Figure] = field(default_factory=dict)
    """Numbers of columns that are not known, by their header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Claim of a row about its global batch: `GBS=1024=4M tokens`, `(global bs = 4M tokens)`."""

    text: str
    """As printed."""
    global_batch: Figure | None
    """Sequences in one optimiser step."""
    tokens: Figure | None
    """Tokens in one optimiser step. `4M` may mean 4 x 10^6 or 4 x 2^20: a rule has to admit both."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnDevice:
    """A device with its peaks, from the file of `llmperf import --peaks`."""

    file: str
    """Its name, without folders."""
    entry: PeakEntry
    """The device's table in that file, with source and date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnModel:
    """A model, from the file of `llmperf import --model`."""

    file: str
    """Its name, without folders."""
    model: Model
    """The facts in that file, with their source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """Statements of the importer about rows, for what the document does not say."""

    device: str | None = None
    """The accelerator, in place of the environment's."""
    nodes: Positive | None = None
    """Machines."""
    devices_per_node: Positive | None = None
    """Accelerators in each."""
    devices: Positive | None = None
    """Accelerators in all."""
    model: str | None = None
    """Name of a model of the library."""
    precision: Dtype | None = None
    """Precision of the products."""
    seq_len: Positive | None = None
    """Tokens in one sequence."""
    lora: Lora | None = None
    """Adapters, of which alone are trained; a target `experts` is every routed expert."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated(Statements):
    """Statements about all rows and about some, and who made them."""

    by: str
    """Who said it, and how: `the importer, by --vendor nvidia --precision bf16`."""
    vendor: str | None = None
    """The vendor plugin of the devices."""
    rows: Mapping[str, Statements] = field(default_factory=dict)
    """Statements about the rows that have a cell, or a heading above their table, with this text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFacts:
    """Facts that a document was checked with beside the installed packages. They are not part of its text."""

    devices: tuple[OwnDevice, ...] = ()
    """In the order of the file."""
    models: tuple[OwnModel, ...] = ()
    """In the order of the files."""
    stated: Stated | None = None
    """Statements from the options and the profile of the import; None without any."""
